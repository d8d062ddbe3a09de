"""Fault: it leaves in time, but saves nothing."""

import sys

from tests.faults.controls.training import INTERRUPTED, STEPS, Training

training = Training()
training.hear_sigterm()
while training.step < STEPS:
    training.advance()
    if training.told:
        sys.exit(INTERRUPTED)
training.finish()
