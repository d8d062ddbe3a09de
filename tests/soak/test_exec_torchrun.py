"""Notices to `outlast exec` around torchrun at random moments, from its start to its loop."""

import random
import signal
import time
from pathlib import Path

import pytest

from tests.drill.test_exec_torchrun import left_processes, mark, torchrun

__all__ = ["mark"]

NOTICES = 30
# torchrun and its two workers take a few seconds to start.
MOMENT_SECONDS_MAX = 8.0


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_notice_at_any_moment_is_an_interruption(mark: str, tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    moments = random.Random(seed)
    for _ in range(NOTICES):
        with torchrun(tmp_path) as program:
            time.sleep(moments.uniform(0.5, MOMENT_SECONDS_MAX))
            program.signal(signal.SIGTERM)
            code = program.wait()

            assert left_processes(mark) == []
            # Between its start and that of its ranks, torchrun's own code counts.
            assert code == 75 or "Sending process" not in program.output, program.output
