"""How the ranks of a training start: the command under torchrun, and the variables it reads.

torchrun takes its options from variables, so that a script that runs torchrun gets them as well.
"""

from outlast.capacity.vocabulary import Launcher
from outlast.manifests.conventions import COMPLETION_INDEX, RESTART_ATTEMPT
from outlast.manifests.launchers import (
    SHUTDOWN_VARIABLE,
    TORCHRUN,
    find_launcher,
    is_interpreter,
    supervision_of,
)
from outlast.manifests.render.resolved import RESERVE_SECONDS, ResolvedWorkload
from outlast.manifests.render.variables import field_variable
from outlast.yamltext.writing import Commented, Value

GROUP = "node"
"""The name of the JobSet's only replicated Job, which is part of the names of its Pods."""
RENDEZVOUS_PORT = 29_400
_MODULE = "torch.distributed.run"
_ATTEMPT = "JOBSET_RESTART_ATTEMPT"
# Nodes that wait here are not given up by failing: the restarted Pods would wait on the same nodes.
_RENDEZVOUS_SECONDS = 86_400


def launched_command(resolved: ResolvedWorkload) -> tuple[str, ...]:
    """The command of the workload, run by torchrun if that is its launcher."""
    command = resolved.workload.command
    if resolved.launcher is not Launcher.TORCHRUN or find_launcher(command) is not None:
        return command
    head = tuple(supervision_of(command))
    return head + _under_torchrun(command[len(head) :]) if len(head) < len(command) else command


def launcher_variables(resolved: ResolvedWorkload) -> list[Value]:
    """What torchrun and the ranks need to find each other. Empty for a single process."""
    nodes, accelerator = resolved.workload.nodes, resolved.workload.accelerator
    if resolved.launcher is not Launcher.TORCHRUN and nodes == 1:
        return []
    seconds = resolved.process_grace_seconds - RESERVE_SECONDS
    return [
        _plain("PET_NNODES", str(nodes), "torchrun reads its options from PET_* variables."),
        _plain("PET_NPROC_PER_NODE", str(accelerator.count) if accelerator else "1"),
        _plain(
            "PET_MAX_RESTARTS",
            "0",
            "Ranks that stop for an eviction must not restart on a node that is going away.",
        ),
        *(_rendezvous(resolved) if nodes > 1 else ()),
        _plain(
            SHUTDOWN_VARIABLE,
            str(seconds),
            "How long torchrun waits for its ranks; the default of 30 s can exceed the grace "
            "period.",
        ),
    ]


def _under_torchrun(command: tuple[str, ...]) -> tuple[str, ...]:
    interpreter, *rest = command
    if not is_interpreter(interpreter) or not rest:
        return (TORCHRUN, "--no-python", *command)
    # torchrun runs the interpreter it is installed for, so a path has to name both.
    launcher = (interpreter, "-m", _MODULE) if "/" in interpreter else (TORCHRUN,)
    if rest[0].startswith("-") and rest[0] != "-m":
        return (*launcher, "--no-python", *command)
    return (*launcher, *rest)


def _rendezvous(resolved: ResolvedWorkload) -> list[Value]:
    """Where the nodes meet.

    Static: the first Pod is the host by its index. With the backend c10d it would have to recognize
    its own name, which fails if it starts before its DNS record exists.
    """
    return [
        _plain("PET_RDZV_BACKEND", "static", "The node with rank 0 hosts the rendezvous."),
        field_variable("PET_NODE_RANK", f"metadata.annotations['{COMPLETION_INDEX}']"),
        _plain(
            "PET_RDZV_ENDPOINT",
            f"{resolved.name}-{GROUP}-0-0.{resolved.name}:{RENDEZVOUS_PORT}",
            "The first Pod, by its DNS name from the Service.",
        ),
        field_variable(
            _ATTEMPT,
            f"metadata.labels['{RESTART_ATTEMPT}']",
            "The restarts of the JobSet so far: Pods of different attempts never meet.",
        ),
        _plain("PET_RDZV_ID", f"{resolved.name}-$({_ATTEMPT})"),
        _plain(
            "PET_RDZV_CONF",
            f"timeout={_RENDEZVOUS_SECONDS}",
            "Nodes start one by one, and the first has to wait for the last. A wait that times "
            "out would count as a failure.",
        ),
    ]


def _plain(name: str, value: str, reason: str = "") -> Value:
    return {"name": Commented(name, reason), "value": value}
