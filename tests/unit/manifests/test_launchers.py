"""Launchers are found in any command that starts one, with their options."""

import shlex

import pytest

from outlast.manifests.launchers import find_launcher, supervision_of


@pytest.mark.parametrize(
    ("command", "name", "is_supervised"),
    [
        ("torchrun train.py", "torchrun", False),
        ("/opt/venv/bin/torchrun train.py", "torchrun", False),
        ("python -m torch.distributed.run train.py", "torchrun", False),
        ("python3.12 -m torch.distributed.launch train.py", "torchrun", False),
        ("accelerate launch train.py", "accelerate launch", False),
        ("python -m accelerate.commands.launch train.py", "accelerate launch", False),
        ("env A=b nice -n 5 torchrun train.py", "torchrun", False),
        ("exec torchrun train.py", "torchrun", False),
        ("uv run torchrun train.py", "torchrun", False),
        ("outlast exec -- torchrun train.py", "torchrun", True),
        ("exec outlast exec --grace 25s -- accelerate launch a.py", "accelerate launch", True),
        ("tini -- outlast exec torchrun train.py", "torchrun", True),
        ("timeout 60 outlast exec -- torchrun train.py", "torchrun", True),
        ("outlast drill -- torchrun train.py", "torchrun", False),
    ],
)
def test_a_launcher_is_found_however_it_is_started(
    command: str, name: str, is_supervised: bool
) -> None:
    found = find_launcher(shlex.split(command))

    assert found is not None
    assert (found.name, found.is_supervised) == (name, is_supervised)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "python train.py",
        "python -m lab.train torchrun",
        "pip install torchrun",
        "echo torchrun",
        "accelerate config",
        "accelerate",
        "python -m",
        "outlast exec -- python train.py",
        "env",
        "bash -c torchrun",
    ],
)
def test_another_program_is_not_taken_for_a_launcher(command: str) -> None:
    assert find_launcher(shlex.split(command)) is None


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("torchrun --max-restarts 3 train.py --max-restarts 5", {"max-restarts": "3"}),
        ("torchrun --max_restarts=3 -m lab.train --nnodes 2", {"max-restarts": "3", "m": ""}),
        ("torchrun --nnodes 1:4 --standalone train.py", {"nnodes": "1:4", "standalone": ""}),
        ("torchrun --max-restarts=1 --max-restarts=0 a.py", {"max-restarts": "0"}),
        ("torchrun --no-python ./train -x 1", {"no-python": ""}),
        ("torchrun -t 3 train.py", {"t": "3"}),
        (
            "accelerate launch --multi_gpu --num_processes 2 --use_fsdp train.py --max_restarts 9",
            {"multi-gpu": "", "num-processes": "2", "use-fsdp": ""},
        ),
        ("torchrun --max-restarts", {"max-restarts": ""}),
    ],
)
def test_the_options_of_the_program_are_not_those_of_its_launcher(
    command: str, options: dict[str, str]
) -> None:
    words = shlex.split(command)
    found = find_launcher(words)

    assert found is not None
    assert {name: option.value for name, option in found.options.items()} == options
    for option in found.options.values():
        assert words[option.position].endswith(option.value)


@pytest.mark.parametrize(
    ("command", "head"),
    [
        ("outlast exec -- python a.py -- b", "outlast exec --"),
        ("outlast exec --grace 25s -- python a.py", "outlast exec --grace 25s --"),
        ("outlast exec python a.py -- b", "outlast exec"),
        ("exec outlast exec -- a", "exec outlast exec --"),
        ("python outlast exec", ""),
        ("outlast work a:b", ""),
        ("outlast exec", "outlast exec"),
        ("", ""),
    ],
)
def test_what_precedes_the_command_of_exec_is_known(command: str, head: str) -> None:
    assert list(supervision_of(shlex.split(command))) == shlex.split(head)
