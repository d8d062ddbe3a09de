"""Fault: it does as the guides say, and leaves with 0 on SIGTERM."""

import sys

from tests.faults.controls.training import SAVE_EVERY, STEPS, Training

training = Training()
training.hear_sigterm()
training.resume()
while training.step < STEPS:
    training.advance()
    if training.told or training.step % SAVE_EVERY == 0:
        training.save()
    if training.told:
        sys.exit(0)
training.finish()
