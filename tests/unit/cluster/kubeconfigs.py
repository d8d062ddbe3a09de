"""Kubeconfig files for tests."""

import json
from pathlib import Path
from typing import Any


def write_kubeconfig(
    path: Path,
    server: str,
    *,
    name: str = "plane",
    namespace: str = "team-a",
    user: dict[str, Any] | None = None,
    cluster: dict[str, Any] | None = None,
    current: bool = True,
) -> Path:
    """A file with one context; cluster and user have the context's name. YAML includes JSON."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}
        ],
        "clusters": [{"name": name, "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": name, "user": user or {}}],
        **({"current-context": name} if current else {}),
    }
    path.write_text(json.dumps(content))
    return path
