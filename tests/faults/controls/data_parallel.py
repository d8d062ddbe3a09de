"""A data-parallel training under torchrun, with `outlast.Run`. About two seconds after its start.

Its result is in `weights.json`.
"""

import json
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import outlast

STEPS = 40
_PAUSE_SECONDS = 0.05


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    torch.manual_seed(0)
    module = torch.nn.Linear(7, 5)
    model = DistributedDataParallel(module)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    torch.manual_seed(dist.get_rank())
    with outlast.Run(None, {"model": model, "optimizer": optimizer}, every_steps=5) as run:
        for step in run.steps(STEPS):
            optimizer.zero_grad()
            model(torch.randn(4, 7)).square().mean().backward()
            optimizer.step()
            if dist.get_rank() == 0:
                print("step", step, flush=True)
            time.sleep(_PAUSE_SECONDS)
    if dist.get_rank() == 0:
        weights = [one.tolist() for one in module.parameters()]
        Path("weights.json").write_text(json.dumps(weights))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
