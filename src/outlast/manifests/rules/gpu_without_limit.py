"""A GPU is requested without a limit, or with another one.

Why: GPUs, TPUs and other devices cannot be promised twice: the API server demands a limit, and that
it equals the request. It refuses the Pod otherwise.
Instead: set the limit; the request may be left out, and is the same then.
"""

from collections.abc import Iterator

from outlast.manifests.lint.changes import Change, Put
from outlast.manifests.lint.pod import Container, Pod
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault


@pod_rule("OL605", Severity.ERROR)
def gpu_without_limit(pod: Pod, review: Review) -> Iterator[Fault]:
    for container in pod.all_containers:
        for name, requested in container.mapping("resources", "requests").items():
            limit = container.get("resources", "limits", name)
            if not _is_device(name) or not isinstance(requested, str | int):
                continue
            at = ("resources", "requests", name)
            if limit is None:
                # What is missing in a base may be added by its Kustomization.
                if not pod.manifest.is_base:
                    yield container.fault(
                        f"{name!r} is requested and has no limit: the Pod is refused.",
                        at=at,
                        of_key=True,
                        fix=container.fix("Set the limit", _limit(container, name), is_safe=True),
                    )
            elif isinstance(limit, str | int) and str(limit) != str(requested):
                yield container.fault(
                    f"{requested!r} of {name!r} are requested and {limit!r} are the limit: they "
                    "must be equal.",
                    at=at,
                )


def _is_device(resource: str) -> bool:
    """Whether it is a resource that some driver brings: all of those have a domain."""
    domain, slash, _ = resource.partition("/")
    is_own = domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
    return bool(slash) and not is_own


def _limit(container: Container, name: str) -> Change:
    requested = container.get("resources", "requests", name)
    if container.mapping("resources", "limits"):
        return Put(("resources", "limits", name), requested)
    return Put(("resources", "limits"), {name: requested})
