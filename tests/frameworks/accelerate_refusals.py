"""Uses of `durable` that are refused: `accelerate_refusals.py FOLDER`, a program for tests.

One is only warned about.

Prints one line of JSON for each use: its name, the error's class and its text.
"""

import json
import logging
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from outlast.integrations.accelerate import durable

accelerate: Any = import_module("accelerate")
state: Any = import_module("accelerate.state")


def loader(**options: Any) -> Any:
    return torch.utils.data.DataLoader(torch.arange(10.0), batch_size=4, **options)  # type: ignore[arg-type]  # a tensor is a data set


def prepared(*others: Any, width: int = 2, **options: Any) -> Any:
    """An accelerator with a model, an optimizer and one loader."""
    state.AcceleratorState._reset_state(True)
    accelerator = accelerate.Accelerator(cpu=True, **options)
    model = torch.nn.Linear(1, width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    accelerator.prepare(model, optimizer, loader(), *others)
    return accelerator


def with_type(name: str, folder: Path) -> None:
    accelerator = prepared()
    # As its plugin sets it, which needs packages or GPUs.
    accelerator.state.distributed_type = getattr(accelerate.DistributedType, name)
    durable(accelerator, folder)


def deepspeed(folder: Path) -> None:
    with_type("DEEPSPEED", folder)


def fsdp(folder: Path) -> None:
    with_type("FSDP", folder)


def megatron(folder: Path) -> None:
    with_type("MEGATRON_LM", folder)


def fp8(folder: Path) -> None:
    accelerator = prepared()
    accelerator.state._mixed_precision = "fp8"
    durable(accelerator, folder)


def power_sgd(folder: Path) -> None:
    hook = import_module("accelerate.utils").DDPCommunicationHookType.POWER_SGD
    handler = accelerate.DistributedDataParallelKwargs(comm_hook=hook)
    durable(prepared(kwargs_handlers=[handler]), folder)


def nothing_prepared(folder: Path) -> None:
    durable(accelerate.Accelerator(cpu=True), folder)


def second_run(folder: Path) -> None:
    accelerator = prepared()
    with durable(accelerator, folder):
        durable(accelerator, folder / "other")


def prepared_late(folder: Path) -> None:
    accelerator = prepared()
    with durable(accelerator, folder) as run:
        accelerator.prepare(torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=0.1))
        list(run.steps(1))


def loader_prepared_late(folder: Path) -> None:
    configuration = accelerate.DataLoaderConfiguration(use_seedable_sampler=True)
    accelerator = prepared(dataloader_config=configuration)
    with durable(accelerator, folder) as run:
        list(run.batches(accelerator.prepare(loader(shuffle=True))))


def uneven(folder: Path) -> None:
    configuration = accelerate.DataLoaderConfiguration(even_batches=False)
    accelerator = prepared(dataloader_config=configuration)
    data: Any = import_module("accelerate.data_loader")
    # What a prepared loader has with two processes.
    late = data.prepare_data_loader(loader(), num_processes=2, process_index=0, even_batches=False)
    with durable(accelerator, folder) as run:
        list(run.batches(late))


def twin_schedulers(folder: Path) -> None:
    accelerator = prepared()
    optimizer = accelerator._optimizers[0].optimizer
    twins = [torch.optim.lr_scheduler.StepLR(optimizer, size) for size in (3, 5)]
    durable(accelerator, folder)
    del twins


def unknown_version(folder: Path) -> None:
    with patch("importlib.metadata.version", lambda _: "1.99.0"):
        durable(prepared(), folder)


def other_run(folder: Path) -> None:
    for width in (2, 3):
        with durable(prepared(width=width), folder) as run:
            list(run.steps(2))


def other_loaders(folder: Path) -> None:
    for others in ((), (loader(),)):
        with durable(prepared(*others), folder) as run:
            list(run.steps(2))


def unknown_option(folder: Path) -> None:
    durable(prepared(), folder, every_step=3)  # type: ignore[call-arg]  # the point


def pass_of_its_own(folder: Path) -> None:
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("outlast.integrations.accelerate").addHandler(handler)
    accelerator = prepared(loader())
    first, second = accelerator._dataloaders
    # accelerate does not notice the end of this one.
    for _ in second:
        break
    with durable(accelerator, folder) as run:
        for _ in run.batches(first):
            run.save()
        assert not messages, messages
    with durable(accelerator, folder / "second") as run:
        rest = iter(second)
        for batch in run.batches(first):
            batch += next(rest)
            run.save()
    raise UserWarning(*messages)


CASES: list[Callable[[Path], None]] = [
    deepspeed,
    fsdp,
    megatron,
    fp8,
    power_sgd,
    nothing_prepared,
    second_run,
    prepared_late,
    loader_prepared_late,
    uneven,
    twin_schedulers,
    unknown_version,
    other_run,
    other_loaders,
    unknown_option,
    pass_of_its_own,
]

if __name__ == "__main__":
    for case in CASES:
        try:
            case(Path(sys.argv[1]) / case.__name__)
            found = {"kind": "", "text": ""}
        except Exception as error:
            found = {"kind": type(error).__name__, "text": str(error)}
        print(json.dumps({"case": case.__name__, **found}), flush=True)
