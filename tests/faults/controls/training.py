"""A small training for the controls: it counts steps, draws numbers, and can be told to stop.

Each control is this training with one fault, and nothing of the library.
"""

import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

STEPS = 50
STEP_SECONDS = 0.02
SAVE_EVERY = 5
CHECKPOINT = Path("checkpoint.json")
RESULT = Path("result.json")

INTERRUPTED = 75


class Training:
    """The state is the step, a sum of random numbers and the generator itself."""

    def __init__(self) -> None:
        self.step = 0
        self.total = 0.0
        self.rng = random.Random(7)
        self.told = False

    def hear_sigterm(self) -> None:
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        self.told = True

    def advance(self) -> None:
        time.sleep(STEP_SECONDS)
        self.total += self.rng.random()
        self.step += 1
        print("step", self.step, flush=True)

    def as_json(self) -> str:
        return json.dumps({"step": self.step, "total": self.total, "rng": self.rng.getstate()})

    def save(self) -> None:
        aside = CHECKPOINT.with_suffix(f".{os.getpid()}.new")
        with aside.open("w") as file:
            file.write(self.as_json())
            file.flush()
            os.fsync(file.fileno())
        aside.replace(CHECKPOINT)

    def resume(self) -> None:
        if CHECKPOINT.exists():
            saved: dict[str, Any] = json.loads(CHECKPOINT.read_text())
            self.step, self.total = saved["step"], saved["total"]
            version, numbers, gauss = saved["rng"]
            self.rng.setstate((version, tuple(numbers), gauss))

    def finish(self) -> None:
        aside = RESULT.with_suffix(".new")
        aside.write_text(json.dumps({"total": self.total}))
        aside.replace(RESULT)
