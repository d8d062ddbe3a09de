"""The API server accepts a value that cannot do what it says.

Why: some values are valid but have another effect than they seem to have. A negative grace period
becomes one second. Of two variables with the same name, the container gets the last one. A probe
of a port name that the container does not have never succeeds. A priority next to a
priorityClassName is refused when the Pod is created, unless it is exactly the value of the class.
Instead: change or remove the value that the finding names.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import Container, Fault, Pod, Review, Severity, pod_rule

_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PORT_HANDLERS = ("httpGet", "tcpSocket")


@pod_rule("OL909", Severity.WARNING)
def accepted_but_wrong(pod: Pod, review: Review) -> Iterator[Fault]:
    grace = pod.grace_seconds
    if grace is not None and grace < 0:
        yield pod.fault(
            f"A grace period of {grace} s is negative: Kubernetes gives the Pod one second.",
            at=("spec", "terminationGracePeriodSeconds"),
            hint="Set the number of seconds that the final save takes.",
        )
    name = pod.text("spec", "priorityClassName")
    priority = pod.integer("spec", "priority")
    if name and priority is not None and priority != _SYSTEM_CLASSES.get(name):
        yield pod.fault(
            f"The priority comes from the class {name!r}; a different number is refused when the "
            "Pod is created.",
            at=("spec", "priority"),
            hint="Remove priority.",
        )
    for container in pod.all_containers:
        yield from _repeated_variables(container)
        yield from _unknown_ports(container)


def _repeated_variables(container: Container) -> Iterator[Fault]:
    seen: dict[str, int] = {}
    for index, item in container.mappings("env"):
        name = item.get("name")
        if isinstance(name, str) and name in seen:
            is_same = container.get("env", seen[name]) == item
            what = "with the same value" if is_same else "and only this value is used"
            yield container.fault(
                f"The variable {name!r} is already set, {what}.",
                at=("env", index, "name"),
                hint="Remove one of them.",
                is_minor=is_same,
            )
        elif isinstance(name, str):
            seen[name] = index


def _unknown_ports(container: Container) -> Iterator[Fault]:
    for probe in _PROBES:
        for handler in _PORT_HANDLERS:
            port = container.get(probe, handler, "port")
            if not isinstance(port, str) or port.isdecimal() or "$" in port or "{" in port:
                continue
            known = [str(item.get("name")) for _, item in container.mappings("ports")]
            if port not in known:
                listed = ", ".join(map(repr, known))
                yield container.fault(
                    f"The container has no port named {port!r}, so the {probe} always fails.",
                    at=(probe, handler, "port"),
                    hint=f"Its ports: {listed}." if listed else "Use the number of the port.",
                )
