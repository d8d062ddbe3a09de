"""No fault: it saves, hears SIGTERM, leaves with 75 and resumes."""

import sys

from tests.faults.controls.training import INTERRUPTED, SAVE_EVERY, STEPS, Training

training = Training()
training.hear_sigterm()
training.resume()
while training.step < STEPS:
    training.advance()
    if training.told or training.step % SAVE_EVERY == 0:
        training.save()
    if training.told:
        sys.exit(INTERRUPTED)
training.finish()
