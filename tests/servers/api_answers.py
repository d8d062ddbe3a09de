"""Record what a real API server answers to the manifests of `tests/fixtures/api-server`.

    KUBEBUILDER_ASSETS=FOLDER python -m tests.servers.api_answers

Each manifest is created in a dry run with strict field validation, which is what kubectl does. The
answers are replayed by `tests/unit/manifests/validation` without a server.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from outlast.cluster.connection.client import ClusterClient
from outlast.cluster.connection.kubeconfig import find_access
from outlast.cluster.connection.link import Link, Request
from tests.servers.control_plane import shared_control_plane
from tests.unit.manifests.validation.cases import ANSWERS, Case, accepted_cases, refused_cases


def record() -> None:
    with tempfile.TemporaryDirectory() as folder:
        plane = shared_control_plane(Path(folder))
        with plane.client() as admin:
            namespace, version = plane.new_namespace(admin), admin.version()
            link = Link(find_access(kubeconfig=plane.kubeconfig(Path(folder) / "recorder")))
            asked = [*refused_cases(), *accepted_cases()]
            names = [case.name for case in asked]
            assert len(set(names)) == len(names), "two manifests have the same name"
            found = {case.name: _answer(link, admin, case, namespace) for case in asked}
    lines = [f"  {json.dumps(name)}: {json.dumps(answer)}" for name, answer in found.items()]
    ANSWERS.write_text(
        f'{{"server": {json.dumps(version)}, "answers": {{\n' + ",\n".join(lines) + "\n}}\n"
    )


def _answer(link: Link, client: ClusterClient, case: Case, namespace: str) -> dict[str, Any]:
    item = case.data
    path = _path(client, item, namespace)
    if path is None:
        return {"status": 404, "reason": "NotFound", "message": "the server has no such resource"}
    response = link.send(
        Request(
            method="POST",
            path=path,
            params={"dryRun": "All", "fieldValidation": "Strict"},
            body=json.dumps(item).encode(),
        )
    )
    if response.status < 300:
        return {"status": response.status}
    status = json.loads(response.body)
    causes = (status.get("details") or {}).get("causes") or []
    answer = {"status": response.status, "reason": status.get("reason", "")}
    answer["message"] = status.get("message", "").replace(namespace, "default")[:400]
    answer["causes"] = [
        {
            "field": cause.get("field", ""),
            "reason": cause.get("reason", ""),
            "message": cause.get("message", "")[:200],
        }
        for cause in causes
    ]
    return answer


def _path(client: ClusterClient, item: dict[str, Any], namespace: str) -> str | None:
    version = item["apiVersion"]
    resource = client.find(version, item["kind"])
    if resource is None:
        return None
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    # The manifest's own namespace does not exist on this server.
    item.get("metadata", {}).pop("namespace", None)
    inside = f"/namespaces/{namespace}" if resource.is_namespaced else ""
    return f"{root}{inside}/{resource.plural}"


if __name__ == "__main__":
    record()
