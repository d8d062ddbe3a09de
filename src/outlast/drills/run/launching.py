"""How one program starts on the nodes of a world: under torchrun, as in the Pods of a JobSet.

Each node runs `outlast exec -- torchrun ... COMMAND`. torchrun takes its options from variables, as
in a rendered JobSet, so the nodes differ only in their environment.
"""

import math
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from outlast.drills.errors import DrillError
from outlast.manifests.launchers import (
    OPTION_PREFIX,
    SHUTDOWN_VARIABLE,
    find_launcher,
    is_interpreter,
    supervision_of,
)

COMPLETION_INDEX = "JOB_COMPLETION_INDEX"

_LOOPBACK = "127.0.0.1"
_MODULE = "torch.distributed.run"
_HAS_TORCH = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
_LOOK_SECONDS_MAX = 60.0
_RENDEZVOUS_SECONDS = 86_400


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldSize:
    """The nodes that run one program together, and the ranks on each of them."""

    nodes: int
    ranks: int


def check_command(command: Sequence[str]) -> None:
    """Refuse a command that starts its own ranks, or whose Python has no torch."""
    launcher = find_launcher(command)
    given = launcher.name if launcher is not None else None
    if given is None and len(supervision_of(command)) > 0:
        given = "outlast exec"
    if given is not None:
        raise DrillError(
            f"The command runs {given!r} itself.",
            hint="--nodes and --ranks add `outlast exec -- torchrun`. Give only the program:"
            " outlast drill --nodes 2 -- python train.py",
        )
    interpreter = _interpreter(command)
    if not _has_torch(interpreter):
        raise DrillError(
            f"--nodes and --ranks start the ranks with torchrun, but {interpreter!r} has no torch.",
            hint="Install torch there, or drill the command without --nodes and --ranks.",
        )


def launched_command(command: Sequence[str]) -> tuple[str, ...]:
    """The command of each node."""
    rest = tuple(command[1:])
    is_script = is_interpreter(command[0]) and rest and (rest[0] == "-m" or rest[0][:1] != "-")
    program = rest if is_script else ("--no-python", *command)
    supervised = (sys.executable, "-m", "outlast", "exec", "--")
    return (*supervised, _interpreter(command), "-m", _MODULE, *program)


def node_environ(
    size: WorldSize, node: int, *, port: int, attempt: int, shutdown_seconds: float
) -> dict[str, str]:
    """The variables by which the nodes find each other: those of a Pod of a rendered JobSet."""
    options = {
        "NNODES": str(size.nodes),
        "NPROC_PER_NODE": str(size.ranks),
        "NODE_RANK": str(node),
        "MAX_RESTARTS": "0",
        "RDZV_BACKEND": "static",
        "RDZV_ENDPOINT": f"{_LOOPBACK}:{port}",
        "RDZV_ID": f"drill-{attempt}",
        "RDZV_CONF": f"timeout={_RENDEZVOUS_SECONDS}",
    }
    return {f"{OPTION_PREFIX}{name}": value for name, value in options.items()} | {
        COMPLETION_INDEX: str(node),
        SHUTDOWN_VARIABLE: str(max(1, math.floor(shutdown_seconds))),
        # Otherwise torchrun prints a warning, which looks like the program's first sign of life.
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    }


def without_launcher_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without options for a launcher outside the drill."""
    return {name: value for name, value in environ.items() if not name.startswith(OPTION_PREFIX)}


def free_port() -> int:
    """A port on the loopback interface that nothing uses now."""
    with socket.socket() as listener:
        listener.bind((_LOOPBACK, 0))
        port: int = listener.getsockname()[1]
        return port


def _interpreter(command: Sequence[str]) -> str:
    return command[0] if is_interpreter(command[0]) else sys.executable


def _has_torch(interpreter: str) -> bool:
    try:
        found = subprocess.run(
            [interpreter, "-c", _HAS_TORCH],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LOOK_SECONDS_MAX,
            check=False,
        )
    except FileNotFoundError:
        # The drill reports a command that does not exist.
        return True
    except (OSError, subprocess.TimeoutExpired):
        return False
    return found.returncode == 0
