"""What the server of `lives` loads before it forks: the slow imports, and nothing that starts."""

from pathlib import Path

import torch

import tests.faults.worker_preloaded  # noqa: F401 - loading it is the point
from tests.faults.training import Plan, Training

torch.set_num_threads(1)
# The first optimizer imports a good part of torch, which every life would do again.
Training(Plan(url="", result=Path()))
