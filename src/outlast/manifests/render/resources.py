"""What a container requests: CPU, memory and accelerators.

Quantities are written as the API server would: `500m` and not 0.5, `1M` and not 1000000. It
rewrites any other spelling, which tools that compare manifests with the cluster report as drift.
"""

from collections.abc import Sequence
from fractions import Fraction

from outlast.capacity.machine_sizes import MachineSize, machine_size
from outlast.manifests.conventions import GPU
from outlast.manifests.render.nodes import known_machine
from outlast.manifests.render.resolved import ResolvedWorkload
from outlast.yamltext.writing import Commented, Value

REQUESTED_SHARE = Fraction(7, 10)
"""Of a machine, less 1 GiB. GKE reserves up to a quarter of the memory of a small machine, and
system Pods need room. A request is a minimum: the container may use more."""

_SYSTEM_MEBIBYTES = 1024


def resources(resolved: ResolvedWorkload) -> Value:
    """The `resources` of the container; empty if nothing is requested."""
    wanted, accelerator = resolved.workload.resources, resolved.workload.accelerator
    requests, reason = _of_machine(resolved)
    limits: dict[str, Value] = {}
    if wanted.cpu is not None:
        requests["cpu"] = cpu_quantity(wanted.cpu)
    if wanted.memory is not None:
        requests["memory"] = limits["memory"] = size_quantity(wanted.memory)
    if accelerator is not None:
        count = count_quantity(accelerator.count)
        requests[GPU] = count
        limits[GPU] = Commented(count, "GPUs require a limit equal to the request.")
    body: dict[str, Value] = {}
    if requests:
        body["requests"] = Commented(requests, reason)
    if limits:
        body["limits"] = limits
    return body if requests else Commented(body, reason)


def _of_machine(resolved: ResolvedWorkload) -> tuple[dict[str, Value], str]:
    """What one Pod per node can request of CPU and memory, and why."""
    wanted = resolved.workload.resources
    if wanted.cpu is not None and wanted.memory is not None:
        return {}, ""
    if resolved.is_autopilot:
        return {}, "On Autopilot, requests choose the machine: set `resources` in the workload."
    machine = known_machine(resolved)
    size = None if machine is None else machine_size(machine)
    if machine is None or size is None:
        what = "The machine type" if machine is None else f"The size of {machine}"
        return {}, f"{what} is unknown. Set `resources` in the workload to request CPU and memory."
    reason = f"About {float(REQUESTED_SHARE):.0%} of {machine}: GKE and system Pods need the rest."
    return share_of(size), reason


def share_of(size: MachineSize) -> dict[str, Value]:
    milli_cpus = int(size.vcpus * 1000 * REQUESTED_SHARE)
    mebibytes = int(Fraction(size.memory_gib) * 1024 * REQUESTED_SHARE) - _SYSTEM_MEBIBYTES
    # In steps of half a core and of 256 MiB, which are easier to read.
    return {
        "cpu": cpu_quantity(Fraction(milli_cpus // 500 * 500, 1000)),
        "memory": size_quantity(mebibytes // 256 * 256 * 1024**2),
    }


def size_quantity(size_bytes: int) -> str:
    """A size as an exact Kubernetes quantity, in binary or decimal units: 12Gi, 12G."""
    binary = _in_units(size_bytes, 1024, ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
    return min(binary, count_quantity(size_bytes), key=len)


def count_quantity(count: int) -> str:
    return _in_units(count, 1000, ("", "k", "M", "G", "T", "P", "E"))


def _in_units(count: int, base: int, units: Sequence[str]) -> str:
    """The number in the largest unit that is exact."""
    power = 0
    while count and count % base == 0 and power < len(units) - 1:
        count, power = count // base, power + 1
    return f"{count}{units[power]}"


def cpu_quantity(cores: float | Fraction) -> str:
    """CPU cores. Kubernetes has no fraction of a core smaller than a thousandth: rounds up."""
    milli_cpus = -(-Fraction(str(cores)) * 1000 // 1)
    return count_quantity(milli_cpus // 1000) if milli_cpus % 1000 == 0 else f"{milli_cpus}m"
