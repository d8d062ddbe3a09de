"""A GPU or other device is requested without an equal limit.

Why: GPUs, TPUs and other devices cannot be overcommitted, so the API server requires a limit that
equals the request. Otherwise it rejects the Pod.
Instead: set the limit. The request can be omitted and then defaults to the limit.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    Change,
    Container,
    Fault,
    Pod,
    Put,
    Review,
    Severity,
    pod_rule,
)


@pod_rule("OL605", Severity.ERROR)
def gpu_without_limit(pod: Pod, review: Review) -> Iterator[Fault]:
    for container in pod.all_containers:
        for name, requested in container.mapping("resources", "requests").items():
            limit = container.get("resources", "limits", name)
            if not _is_device(name) or not isinstance(requested, str | int):
                continue
            at = ("resources", "requests", name)
            if limit is None:
                # A Kustomization may add what its base does not set.
                if not pod.manifest.is_base:
                    yield container.fault(
                        f"{name!r} is requested without a limit, so the Pod is rejected.",
                        at=at,
                        of_key=True,
                        fix=container.fix("Set the limit", _limit(container, name), is_safe=True),
                    )
            elif isinstance(limit, str | int) and str(limit) != str(requested):
                yield container.fault(
                    f"The request for {name!r} is {requested!r} and the limit is {limit!r}, but "
                    "they must be equal.",
                    at=at,
                )


def _is_device(resource: str) -> bool:
    """Whether a device driver provides the resource: all of these have a domain."""
    domain, slash, _ = resource.partition("/")
    is_own = domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
    return bool(slash) and not is_own


def _limit(container: Container, name: str) -> Change:
    requested = container.get("resources", "requests", name)
    if container.mapping("resources", "limits"):
        return Put(("resources", "limits", name), requested)
    return Put(("resources", "limits"), {name: requested})
