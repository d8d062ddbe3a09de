"""Fault: it resumes the step and the sum, but not the random generator."""

import json
import sys

from tests.faults.controls.training import (
    CHECKPOINT,
    INTERRUPTED,
    SAVE_EVERY,
    STEPS,
    Training,
)

training = Training()
training.hear_sigterm()
if CHECKPOINT.exists():
    saved = json.loads(CHECKPOINT.read_text())
    training.step, training.total = saved["step"], saved["total"]
while training.step < STEPS:
    training.advance()
    if training.told or training.step % SAVE_EVERY == 0:
        training.save()
    if training.told:
        sys.exit(INTERRUPTED)
training.finish()
