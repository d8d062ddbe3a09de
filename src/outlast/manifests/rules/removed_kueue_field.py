"""A Kueue object of v1beta2 uses a field that only v1beta1 has.

Why: the v1beta2 API of Kueue has no admissionChecks in a ClusterQueue. kubectl rejects the field;
other clients drop it silently. The queue then has no admission check, so its Jobs are admitted
without a request for nodes.
Instead: list the checks in admissionChecksStrategy.admissionChecks, each with its name.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    KUEUE_GROUP,
    Fault,
    Fix,
    KubernetesObject,
    Put,
    Remove,
    Review,
    Severity,
    object_rule,
)

_VERSION = f"{KUEUE_GROUP}/v1beta2"
_OLD = ("spec", "admissionChecks")
_NEW = ("spec", "admissionChecksStrategy")


@object_rule("OL308", Severity.ERROR, on_patches=True)
def removed_kueue_field(manifest: KubernetesObject, review: Review) -> Iterator[Fault]:
    if manifest.kind != "ClusterQueue" or manifest.api_version != _VERSION:
        return
    if manifest.get(*_OLD) is not None:
        yield manifest.fault(
            "A ClusterQueue of v1beta2 has no field 'admissionChecks'.",
            at=_OLD,
            of_key=True,
            hint="Use admissionChecksStrategy.admissionChecks with a list of names.",
            fix=_moved(manifest),
        )


def _moved(manifest: KubernetesObject) -> Fix | None:
    names = manifest.listed(*_OLD)
    if not names or not all(isinstance(name, str) for name in names) or manifest.get(*_NEW):
        return None
    strategy = {"admissionChecks": [{"name": name} for name in names]}
    # The checks take effect for the first time.
    return manifest.fix(
        "Move them to admissionChecksStrategy", Put(_NEW, strategy), Remove(_OLD), is_safe=False
    )
