"""`outlast submit` on a real control plane: repeated, killed, beside Kueue, without permissions."""

import json
import threading
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from outlast.cli.app import run
from outlast.cluster.connection.client import ClusterClient
from outlast.cluster.connection.link import Request
from outlast.cluster.resources import (
    JOBS,
    NAMESPACES,
    PODS,
    SERVICE_ACCOUNTS,
    Query,
    Resource,
    name_of,
    version_of,
)
from outlast.cluster.roles import SUBMIT_RULES
from tests.patience import eventually
from tests.servers.control_plane import ControlPlane, grant
from tests.servers.killing import run_killed

pytestmark = pytest.mark.needs("control-plane")

POLICIES = Resource(
    api_version="networking.k8s.io/v1", kind="NetworkPolicy", plural="networkpolicies"
)
CLAIMS = Resource(api_version="v1", kind="PersistentVolumeClaim", plural="persistentvolumeclaims")
KINDS = (SERVICE_ACCOUNTS, POLICIES, JOBS)
WORKLOAD = """
name: tiny
kind: training
namespace: {namespace}
image: example.com/train:1
command: [python, train.py]
machine: e2-standard-8
tier: spot
work: {{hours: 5}}
checkpoint: {{url: "gs://runs/tiny", size: 1GiB}}
"""
JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "queued", "labels": {"kueue.x-k8s.io/queue-name": "q"}},
    "spec": {
        "suspend": True,
        "backoffLimit": 3,
        "podFailurePolicy": {
            "rules": [
                {
                    "action": "Ignore",
                    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                },
                {
                    "action": "Ignore",
                    "onExitCodes": {"operator": "In", "values": [75]},
                },
            ]
        },
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 25,
                "containers": [
                    {"name": "main", "image": "example.com/train:1", "command": ["python", "x.py"]}
                ],
            }
        },
    },
}


@dataclass(frozen=True)
class Done:
    stdout: str
    stderr: str


def _submit(kubeconfig: Path, *arguments: str | Path, code: int = 0) -> Done:
    """Run the command in this process, which is much quicker than in one of its own."""
    words = ["submit", *map(str, arguments), "--kubeconfig", str(kubeconfig)]
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        found = run(words)
    done = Done(out.getvalue(), err.getvalue())
    assert found == code, done
    return done


@pytest.fixture
def kubeconfig(control_plane: ControlPlane, tmp_path: Path, namespace: str) -> Path:
    return control_plane.kubeconfig(tmp_path / "kubeconfig", namespace=namespace)


@pytest.fixture
def workload(tmp_path: Path, namespace: str) -> Path:
    path = tmp_path / "workload.yaml"
    path.write_text(WORKLOAD.format(namespace=namespace))
    return path


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return _write(tmp_path, JOB)


def _write(folder: Path, item: dict[str, Any]) -> Path:
    path = folder / "job.json"
    path.write_text(json.dumps(item))
    return path


def _versions(admin: ClusterClient, namespace: str) -> dict[str, str]:
    """The resource versions of everything in a namespace that a submission may touch."""
    eventually(lambda: _is_settled(admin, namespace), "the controllers have seen the Job")
    return {
        f"{resource} {name_of(item)}": version_of(item)
        for resource in (*KINDS, CLAIMS)
        for item in admin.list(Query(resource=resource, namespace=namespace))
    }


def _is_settled(admin: ClusterClient, namespace: str) -> bool:
    """Whether the controllers have written what they have to write about the Jobs and Pods."""
    pods = list(admin.list(Query(resource=PODS, namespace=namespace)))
    jobs = list(admin.list(Query(resource=JOBS, namespace=namespace)))
    counts = [
        (status.get("active"), status.get("ready"), status.get("terminating"))
        for status in (job.get("status") or {} for job in jobs if not job["spec"].get("suspend"))
    ]
    return (
        all(job.get("status", {}).get("conditions") for job in jobs if job["spec"].get("suspend"))
        and all(count == (1, 0, 0) for count in counts)
        and all(pod["status"].get("conditions") for pod in pods)
    )


@pytest.mark.parametrize(("url", "count"), [("gs://runs/tiny", 4), ("file:///mnt/runs", 5)])
def test_submitting_twice_changes_nothing(
    url: str,
    count: int,
    kubeconfig: Path,
    workload: Path,
    admin: ClusterClient,
    namespace: str,
) -> None:
    workload.write_text(workload.read_text().replace("gs://runs/tiny", url))
    first = _submit(kubeconfig, workload, "--setup")
    made = _versions(admin, namespace)
    second = _submit(kubeconfig, workload, "--setup")

    assert "Job 'tiny' created" in first.stdout
    assert "Job 'tiny' unchanged" in second.stdout
    assert "changed" not in second.stdout.replace("unchanged", "")
    assert _versions(admin, namespace) == made
    assert len(made) == count


def test_a_dry_run_changes_nothing(
    kubeconfig: Path, workload: Path, admin: ClusterClient, namespace: str
) -> None:
    before = _versions(admin, namespace)
    created = _submit(kubeconfig, workload, "--setup", "--dry-run", "--format", "json")
    assert _versions(admin, namespace) == before

    _submit(kubeconfig, workload, "--setup")
    made = _versions(admin, namespace)
    again = _submit(kubeconfig, workload, "--dry-run", "--set", "retries=7")

    assert {one["action"] for one in json.loads(created.stdout)["objects"]} >= {"created"}
    assert "Job 'tiny' would be changed" in again.stdout
    assert _versions(admin, namespace) == made


def test_a_new_namespace_is_created_before_what_is_in_it(
    kubeconfig: Path, tmp_path: Path, admin: ClusterClient, namespace: str
) -> None:
    new = f"{namespace}-new"
    path = tmp_path / "workload.yaml"
    path.write_text(WORKLOAD.format(namespace=new))

    without = _submit(kubeconfig, path, code=1)
    dry = _submit(kubeconfig, path, "--setup", "--dry-run")
    assert admin.get(NAMESPACES, new) is None
    _submit(kubeconfig, path, "--setup")

    assert f"Namespace '{new}' does not exist" in without.stderr
    assert "--setup" in without.stderr
    assert "its namespace does not exist yet" in dry.stdout
    assert admin.get(JOBS, "tiny", new) is not None


@pytest.mark.parametrize(
    ("number", "when"), [(1, "after"), (2, "after"), (3, "before"), (3, "after"), (4, "after")]
)
def test_killed_anywhere_it_completes_when_repeated(
    number: int,
    when: str,
    kubeconfig: Path,
    workload: Path,
    admin: ClusterClient,
    namespace: str,
    tmp_path: Path,
) -> None:
    # The priority class, which all namespaces share, is there already; the last write is the Job.
    elsewhere = tmp_path / "elsewhere.yaml"
    elsewhere.write_text(WORKLOAD.format(namespace=f"{namespace}-else"))
    _submit(kubeconfig, elsewhere, "--setup")
    run_killed(kubeconfig, number, when, "submit", workload, "--setup")
    assert (admin.get(JOBS, "tiny", namespace) is not None) is (number == 4)

    done = _submit(kubeconfig, workload, "--setup")

    assert "Job 'tiny'" in done.stdout
    assert len(_versions(admin, namespace)) == 4


def test_killed_while_replacing_it_completes_when_repeated(
    kubeconfig: Path, job: Path, admin: ClusterClient, namespace: str, tmp_path: Path
) -> None:
    _submit(kubeconfig, job)
    first = admin.get(JOBS, "queued", namespace)
    changed = json.loads(json.dumps(JOB))
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "example.com/train:2"
    # Someone else also waits for the Job's end, so it stays in the state of being deleted.
    admin.patch(JOBS, "queued", {"metadata": {"finalizers": ["example.com/hold"]}}, namespace)
    path = _write(tmp_path, changed)
    # The first write is refused, the second one deletes the Job.
    run_killed(kubeconfig, 2, "after", "submit", path, "--replace")
    deleting = admin.get(JOBS, "queued", namespace)
    assert deleting is not None and "deletionTimestamp" in deleting["metadata"]

    dry = _submit(kubeconfig, path, "--dry-run")
    release = threading.Timer(
        1, admin.patch, [JOBS, "queued", {"metadata": {"finalizers": None}}, namespace]
    )
    release.start()
    done = _submit(kubeconfig, path)

    assert "it is being deleted" in dry.stdout
    assert "Job 'queued' created" in done.stdout
    found = admin.get(JOBS, "queued", namespace)
    assert found is not None and first is not None
    assert found["metadata"]["uid"] != first["metadata"]["uid"]
    assert "deletionTimestamp" not in found["metadata"]


def _as_kueue(admin: ClusterClient, namespace: str, changes: dict[str, Any]) -> None:
    """Change the Job as Kueue does when it admits it: an update by its own field manager."""
    request = Request(
        method="PATCH",
        path=JOBS.path(namespace, "queued"),
        params={"fieldManager": "kueue"},
        body=json.dumps(changes).encode(),
        content_type="application/merge-patch+json",
    )
    assert admin._link.send(request).status == 200


def test_a_job_that_kueue_has_not_admitted_stays_suspended(
    kubeconfig: Path, job: Path, admin: ClusterClient, namespace: str
) -> None:
    _submit(kubeconfig, job)
    made = _versions(admin, namespace)
    done = _submit(kubeconfig, job)

    found = admin.get(JOBS, "queued", namespace)
    assert found is not None and found["spec"]["suspend"] is True
    assert _versions(admin, namespace) == made
    assert "it is suspended" in done.stdout


def test_what_kueue_has_set_is_left_alone(
    kubeconfig: Path, job: Path, admin: ClusterClient, namespace: str, tmp_path: Path
) -> None:
    tolerations = [{"key": "spot", "operator": "Exists"}]
    _submit(kubeconfig, job)
    template = {"spec": {"tolerations": tolerations, "nodeSelector": {"pool": "spot"}}}
    _as_kueue(admin, namespace, {"spec": {"suspend": False, "template": template}})
    started = _versions(admin, namespace)

    _submit(kubeconfig, job)
    _submit(kubeconfig, job, "--dry-run")

    found = admin.get(JOBS, "queued", namespace)
    assert found is not None and found["spec"]["suspend"] is False
    assert found["spec"]["template"]["spec"]["tolerations"] == tolerations
    assert started.keys() == _versions(admin, namespace).keys()

    changed = {**JOB, "spec": {**JOB["spec"], "backoffLimit": 5}}
    _submit(kubeconfig, _write(tmp_path, changed))
    found = admin.get(JOBS, "queued", namespace)
    assert found is not None and found["spec"]["backoffLimit"] == 5
    assert found["spec"]["suspend"] is False


def test_a_field_of_another_program_is_refused_with_its_name(
    kubeconfig: Path, job: Path, admin: ClusterClient, namespace: str
) -> None:
    _submit(kubeconfig, job)
    request = Request(
        method="PATCH",
        path=JOBS.path(namespace, "queued"),
        params={"fieldManager": "tuner"},
        body=b'{"spec": {"backoffLimit": 9}}',
        content_type="application/merge-patch+json",
    )
    assert admin._link.send(request).status == 200

    done = _submit(kubeconfig, job, code=1)

    assert 'conflict with "tuner"' in done.stderr
    assert ".spec.backoffLimit" in done.stderr
    assert done.stderr.count("error:") == done.stderr.count("hint:") == 1


def test_a_changed_template_needs_replace(
    kubeconfig: Path, job: Path, admin: ClusterClient, namespace: str, tmp_path: Path
) -> None:
    _submit(kubeconfig, job)
    made = _versions(admin, namespace)
    first = admin.get(JOBS, "queued", namespace)
    changed = json.loads(json.dumps(JOB))
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "example.com/train:2"
    path = _write(tmp_path, changed)

    refused = _submit(kubeconfig, path, code=1)
    dry = _submit(kubeconfig, path, "--replace", "--dry-run")
    assert _versions(admin, namespace) == made
    _submit(kubeconfig, path, "--replace")

    assert "its spec.template.spec cannot be changed" in refused.stderr
    assert "--replace" in refused.stderr
    assert "would be replaced" in dry.stdout
    found = admin.get(JOBS, "queued", namespace)
    assert found is not None and first is not None
    assert found["metadata"]["uid"] != first["metadata"]["uid"]
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "example.com/train:2"


def test_an_unknown_field_is_explained(kubeconfig: Path, tmp_path: Path) -> None:
    # A service account, because the lint would find the mistake in a Job by itself.
    item = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "x"},
        "automountTokens": False,
    }
    done = _submit(kubeconfig, _write(tmp_path, item), code=1)

    assert "automountTokens" in done.stderr
    assert "hint:" in done.stderr


def test_a_kind_that_is_not_served_says_what_to_install(kubeconfig: Path, tmp_path: Path) -> None:
    item = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "s"},
        "spec": {"replicatedJobs": []},
    }
    done = _submit(kubeconfig, _write(tmp_path, item), code=1)

    assert "does not serve JobSet of jobset.x-k8s.io/v1alpha2" in done.stderr
    assert "Install JobSet" in done.stderr


@pytest.mark.parametrize("length", [1, 250_000])
def test_a_hostile_name_is_escaped_and_cut(length: int, kubeconfig: Path, tmp_path: Path) -> None:
    name = "\x1b]0;owned\x07<script>\u202e" + "x" * length
    item = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    done = _submit(kubeconfig, _write(tmp_path, item), code=1 if length == 1 else 2)

    assert "\x1b" not in done.stdout + done.stderr
    assert "\u202e" not in done.stdout + done.stderr
    assert len(done.stderr) < 5_000


def _single_permissions() -> Iterator[tuple[int, Resource, str]]:
    """Each permission of the Role that submitting a training Job uses."""
    for index, rule in enumerate(SUBMIT_RULES):
        for resource in KINDS:
            if resource.plural in rule["resources"]:
                yield from ((index, resource, verb) for verb in ("get", "create", "patch"))


def test_the_printed_role_is_enough_and_each_part_of_it_is_needed(
    control_plane: ControlPlane,
    admin: ClusterClient,
    namespace: str,
    workload: Path,
    tmp_path: Path,
) -> None:
    user = control_plane.new_user()
    theirs = control_plane.kubeconfig(tmp_path / "theirs", user, namespace=namespace)
    # Objects of the setup may not be read by them, and nothing is claimed about those.
    with control_plane.client(user) as client:
        for index, resource, verb in _single_permissions():
            rule = SUBMIT_RULES[index]
            without = {**rule, "verbs": [one for one in rule["verbs"] if one != verb]}
            rules = [*SUBMIT_RULES[:index], without, *SUBMIT_RULES[index + 1 :]]
            _grant_and_wait(admin, client, user, namespace, rules, (verb, resource))

            done = _submit(theirs, workload, code=1)

            line = f'resources: ["{resource.plural}"], verbs: ["{verb}"]'
            assert line in done.stderr, (resource, verb, done.stderr)
            assert "Nothing was applied." in done.stderr

        _grant_and_wait(admin, client, user, namespace, SUBMIT_RULES, None)
    _submit(theirs, workload)


def _grant_and_wait(
    admin: ClusterClient,
    client: ClusterClient,
    user: str,
    namespace: str,
    rules: list[dict[str, Any]],
    missing: tuple[str, Resource] | None,
) -> None:
    """Grant, and wait until the API server has taken notice."""
    grant(admin, user, namespace, rules)

    def is_in_force() -> bool:
        return all(
            client.can_i(verb, resource, namespace) is ((verb, resource) != missing)
            for _, resource, verb in _single_permissions()
        )

    eventually(is_in_force, f"the rules of {user} are in force")
