"""Fault: it writes its checkpoint where the last one is, piece by piece."""

import sys
import time

from tests.faults.controls.training import (
    CHECKPOINT,
    INTERRUPTED,
    SAVE_EVERY,
    STEPS,
    Training,
)

training = Training()
training.hear_sigterm()
training.resume()
while training.step < STEPS:
    training.advance()
    if training.told or training.step % SAVE_EVERY == 0:
        text = training.as_json()
        with CHECKPOINT.open("w") as file:
            for start in range(0, len(text), 2000):
                file.write(text[start : start + 2000])
                file.flush()
                time.sleep(0.02)
    if training.told:
        sys.exit(INTERRUPTED)
training.finish()
