"""The Namespace."""

from outlast.manifests.render.files import RenderedFile, manifest
from outlast.manifests.render.settled import Settled

_THERE_ALWAYS = {"default"}


def namespace_file(settled: Settled) -> RenderedFile | None:
    if settled.namespace in _THERE_ALWAYS:
        return None
    return manifest(
        "10-namespace.yaml",
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": settled.namespace,
                "labels": {"app.kubernetes.io/managed-by": "outlast"},
            },
        },
    )
