"""Runs a program with torch that gets SIGTERM in one of its updates, or never if that is -1.

python evicted.py UPDATE PROGRAM ARGUMENTS...
"""

import itertools
import os
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook

evicted_in, program = int(sys.argv[1]), sys.argv[2]
updates = itertools.count()


def count(*_: Any) -> None:
    if next(updates) == evicted_in:
        os.kill(os.getpid(), signal.SIGTERM)


register_optimizer_step_post_hook(count)
sys.argv = sys.argv[2:]
sys.path[0] = str(Path(program).parent)
runpy.run_path(program, run_name="__main__")
