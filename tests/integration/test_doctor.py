"""`outlast doctor` on a real control plane: each failure, its next step applied, checked again."""

import json
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from outlast.cli.app import run
from outlast.cluster.connection.client import ClusterClient
from outlast.cluster.connection.link import Request
from outlast.cluster.resources import NODES, PRIORITY_CLASSES, Resource
from outlast.cluster.roles import SUBMIT_RULES
from tests.patience import eventually
from tests.servers.control_plane import ControlPlane, grant
from tests.servers.custom_kinds import define

pytestmark = pytest.mark.needs("control-plane")


def _doctor(kubeconfig: Path, *arguments: str | Path) -> dict[str, list[dict[str, str]]]:
    """The results by verdict. The exit code must agree with them."""
    words = ["doctor", *map(str, arguments), "--kubeconfig", str(kubeconfig), "--format", "json"]
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = run(words)
    assert out.getvalue(), err.getvalue()
    found: dict[str, list[dict[str, str]]] = {"ok": [], "warn": [], "FAIL": [], "unknown": []}
    for one in json.loads(out.getvalue())["checks"]:
        found[one["verdict"]].append(one)
    assert code == (1 if found["FAIL"] else 0)
    assert all(one["next_step"] for one in found["FAIL"])
    return found


def _texts(results: list[dict[str, str]]) -> str:
    return "\n".join(one["text"] for one in results)


def _job(pool: str, **changes: Any) -> dict[str, Any]:
    main = {"name": "main", "image": "example.com/train:1", "command": ["python", "x.py"]}
    spec = {
        "restartPolicy": "Never",
        "nodeSelector": {"pool": pool},
        "containers": [main],
        **changes,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "run"},
        "spec": {"backoffLimit": 3, "template": {"spec": spec}},
    }


def _write(folder: Path, *items: dict[str, Any]) -> Path:
    path = folder / "objects.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return path


def _make_node(admin: ClusterClient, pool: str) -> None:
    taint = {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NoSchedule"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": pool, "labels": {"pool": pool}},
        "spec": {"taints": [taint]},
    }
    admin.apply(NODES, node)
    status = {"status": {"allocatable": {"cpu": "4", "memory": "16Gi"}}}
    request = Request(
        method="PATCH",
        path=NODES.path(None, pool, "status"),
        body=json.dumps(status).encode(),
        content_type="application/merge-patch+json",
    )
    assert admin._link.send(request).status == 200


@pytest.fixture
def kubeconfig(control_plane: ControlPlane, tmp_path: Path, namespace: str) -> Path:
    return control_plane.kubeconfig(tmp_path / "kubeconfig", namespace=namespace)


def test_without_a_file_the_cluster_itself_is_checked(kubeconfig: Path) -> None:
    found = _doctor(kubeconfig)

    assert "Kubernetes v1." in _texts(found["ok"])
    assert "is not one of GKE" in _texts(found["unknown"])
    assert not found["FAIL"]


def test_labels_taints_and_size_are_computed_from_the_nodes(
    kubeconfig: Path, admin: ClusterClient, namespace: str, tmp_path: Path
) -> None:
    pool = namespace
    toleration = {"key": "cloud.google.com/gke-spot", "operator": "Exists"}
    large = {"resources": {"requests": {"cpu": "4500m"}}}
    main = _job(pool)["spec"]["template"]["spec"]["containers"][0]

    nobody = _doctor(kubeconfig, _write(tmp_path, _job(pool)))
    _make_node(admin, pool)
    tainted = _doctor(kubeconfig, _write(tmp_path, _job(pool)))
    changes: dict[str, Any] = {"tolerations": [toleration], "containers": [{**main, **large}]}
    too_large = _doctor(kubeconfig, _write(tmp_path, _job(pool, **changes)))
    fine = _doctor(kubeconfig, _write(tmp_path, _job(pool, tolerations=[toleration])))

    # Other tests may have nodes in this cluster, or none.
    assert f"matches pool={pool} now" in _texts(nobody["unknown"])
    assert "does not tolerate cloud.google.com/gke-spot=true:NoSchedule" in _texts(tainted["FAIL"])
    assert "it requests 4.5 of cpu, and a matching node has 4" in _texts(too_large["FAIL"])
    assert not fine["FAIL"]
    assert "taints tolerated" in _texts(fine["ok"])


def test_a_missing_priority_class_fails_until_it_is_created(
    kubeconfig: Path, admin: ClusterClient, namespace: str, tmp_path: Path
) -> None:
    path = _write(tmp_path, _job("any", priorityClassName=namespace))

    missing = _doctor(kubeconfig, path)
    body = {
        "apiVersion": PRIORITY_CLASSES.api_version,
        "kind": PRIORITY_CLASSES.kind,
        "metadata": {"name": namespace},
        "value": -5,
    }
    admin.apply(PRIORITY_CLASSES, body)

    assert f"PriorityClass '{namespace}' does not exist" in _texts(missing["FAIL"])
    assert not _doctor(kubeconfig, path)["FAIL"]


def _kueue(kind: str, plural: str, name: str, namespace: str = "", **body: Any) -> Any:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    item = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": kind, "metadata": metadata, **body}
    resource = Resource(
        api_version=item["apiVersion"], kind=kind, plural=plural, is_namespaced=bool(namespace)
    )
    return resource, item


def test_the_chain_of_kueue_is_followed_to_its_end(
    kubeconfig: Path, admin: ClusterClient, namespace: str, tmp_path: Path
) -> None:
    job = _job("any")
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
    job["spec"]["suspend"] = True
    path = _write(tmp_path, job)
    steps: list[str] = []

    def failures() -> str:
        steps.append(_texts(_doctor(kubeconfig, path)["FAIL"]))
        return steps[-1]

    def create(*arguments: Any, **body: Any) -> None:
        admin.apply(*_kueue(*arguments, **body))

    assert "Kueue is not installed" in failures()
    kinds = (
        _kueue("LocalQueue", "localqueues", "", namespace)[0],
        _kueue("ClusterQueue", "clusterqueues", "")[0],
        _kueue("ResourceFlavor", "resourceflavors", "")[0],
        _kueue("AdmissionCheck", "admissionchecks", "")[0],
    )
    define(admin, *kinds, has_status=False)
    create("LocalQueue", "localqueues", "other", namespace, spec={"clusterQueue": "c"})
    assert "LocalQueue 'q' does not exist" in failures()
    create("LocalQueue", "localqueues", "q", namespace, spec={"clusterQueue": namespace})
    assert f"ClusterQueue '{namespace}' of queue 'q' does not exist" in failures()
    groups = [{"flavors": [{"name": namespace}]}]
    spec = {"resourceGroups": groups, "stopPolicy": "Hold"}
    create("ClusterQueue", "clusterqueues", namespace, spec=spec)
    assert "is stopped (Hold)" in failures()
    assert f"ResourceFlavor '{namespace}' of ClusterQueue" in steps[-1]
    create("ResourceFlavor", "resourceflavors", namespace, spec={})
    active = {"conditions": [{"type": "Active", "status": "True"}]}
    checks: Any = {"admissionChecks": [{"name": namespace}]}
    spec = {"resourceGroups": groups, "stopPolicy": "None", "admissionChecksStrategy": checks}
    create("ClusterQueue", "clusterqueues", namespace, spec=spec, status=active)
    assert f"AdmissionCheck '{namespace}' of ClusterQueue" in failures()
    create("AdmissionCheck", "admissionchecks", namespace, spec={"controllerName": "x"})
    assert not failures()


def test_missing_permissions_are_named_and_the_rest_goes_on(
    control_plane: ControlPlane,
    admin: ClusterClient,
    namespace: str,
    tmp_path: Path,
) -> None:
    user = control_plane.new_user()
    theirs = control_plane.kubeconfig(tmp_path / "theirs", user, namespace=namespace)
    path = _write(tmp_path, _job("any", priorityClassName="x"))

    nothing = _doctor(theirs, path)
    grant(admin, user, namespace, SUBMIT_RULES)
    with control_plane.client(user) as client:
        jobs = Resource(api_version="batch/v1", kind="Job", plural="jobs")
        eventually(lambda: client.can_i("patch", jobs, namespace), "the rules are in force")
    granted = _doctor(theirs, path)

    assert f"you may not get/create/patch jobs.batch in namespace {namespace}" in _texts(
        nothing["FAIL"]
    )
    assert 'verbs: ["get", "create", "patch"]' in str(nothing["FAIL"])
    assert "you may not list nodes" in _texts(nothing["warn"])
    assert "you may get/create/patch jobs" in _texts(granted["ok"])
    # A priority class that may not be read is not known: neither ok nor missing.
    assert "PriorityClass" in _texts(granted["unknown"])
    assert not granted["FAIL"]
