"""A resource has the name of an accelerator, but misspelled.

Why: the API server accepts any name with a domain as a resource of some device driver. No node
offers nvidia/gpu, so a Pod that asks for it stays Pending indefinitely, without an error.
Instead: use the exact name: nvidia.com/gpu, amd.com/gpu or google.com/tpu.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import Fault, Pod, Rename, Review, Severity, pod_rule

_DEVICES = {("nvidia", "gpu"), ("amd", "gpu"), ("google", "tpu")}
_PARTS = ("requests", "limits")


@pod_rule("OL514", Severity.ERROR, on_patches=True)
def misspelled_resource(pod: Pod, review: Review) -> Iterator[Fault]:
    for container in pod.all_containers:
        for part in _PARTS:
            amounts = container.mapping("resources", part)
            for name in amounts:
                meant = _meant(name)
                if meant is None:
                    continue
                at = ("resources", part, name)
                yield container.fault(
                    f"No node offers {name!r}; the resource is called {meant!r}.",
                    at=at,
                    of_key=True,
                    hint=f"Change it to {meant!r}.",
                    # The Pod can then run for the first time.
                    fix=container.fix(f"Change it to {meant}", Rename(at, meant), is_safe=False)
                    if meant not in amounts
                    else None,
                )


def _meant(name: str) -> str | None:
    """The accelerator that was meant, None if the name may be right."""
    domain, slash, device = name.lower().partition("/")
    words = domain.split(".")
    vendor = next((one for one in words if any(one == known for known, _ in _DEVICES)), None)
    singular = device.rstrip("s")
    if not slash or (vendor, singular) not in _DEVICES:
        return None
    meant = f"{vendor}.com/{singular}"
    return meant if meant != name else None
