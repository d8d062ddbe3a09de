"""What the specimens share: steps of work, a result, and a checkpoint that is saved well."""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

STEPS = int(os.environ.get("SPECIMEN_STEPS", "40"))
CHECKPOINT = Path("checkpoint.json")
RESULT = Path("result.json")


def work() -> None:
    """One step of work."""
    time.sleep(0.02)


def finish(value: object = "done") -> None:
    write_safely(RESULT, json.dumps({"result": value}))


def save(step: int) -> None:
    write_safely(CHECKPOINT, json.dumps({"step": step}))


def saved_step() -> int:
    return int(json.loads(CHECKPOINT.read_text())["step"]) if CHECKPOINT.exists() else 0


def write_safely(path: Path, text: str) -> None:
    aside = path.with_suffix(".new")
    with aside.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def on_sigterm(react: Callable[[], object]) -> None:
    signal.signal(signal.SIGTERM, lambda *_: react())


class Notice:
    """Notes SIGTERM; `leave_if_given` exits between two steps."""

    def __init__(self) -> None:
        self.given = False
        on_sigterm(self._note)

    def _note(self) -> None:
        self.given = True

    def leave_if_given(self, code: int = 75) -> None:
        if self.given:
            sys.exit(code)


def seeded() -> random.Random:
    return random.Random(7)
