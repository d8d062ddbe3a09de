"""Fault: on SIGTERM it starts a save that takes longer than the grace period."""

import os
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
    if training.told:
        aside = CHECKPOINT.with_suffix(f".{os.getpid()}.new")
        with aside.open("w") as file:
            for _ in range(100):
                file.write("x" * 1000)
                file.flush()
                time.sleep(0.05)
        aside.write_text(training.as_json())
        aside.replace(CHECKPOINT)
        sys.exit(INTERRUPTED)
    if training.step % SAVE_EVERY == 0:
        training.save()
training.finish()
