"""Each permission taken away in turn: one sentence that names it, and the line for the Role."""

import json
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from outlast.cli.app import run
from outlast.cluster.connection.api import UpdateKind
from outlast.cluster.connection.client import ClusterClient
from outlast.cluster.connection.feed import Feed
from outlast.cluster.errors import ApiRefusal
from outlast.cluster.resources import (
    EVENTS,
    JOBS,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    Query,
    Resource,
    name_of,
)
from outlast.cluster.roles import SUBMIT_RULES, WATCH_CLUSTER_RULES, WATCH_RULES
from tests.patience import PATIENCE_SECONDS, eventually
from tests.programs import outlast
from tests.servers.control_plane import ControlPlane, grant, grant_everywhere
from tests.servers.live_run import live_run

pytestmark = pytest.mark.needs("control-plane")

Permission = tuple[str, Resource]
QUOTAS = Resource(api_version="v1", kind="ResourceQuota", plural="resourcequotas")
TO_SUBMIT: list[Permission] = [
    (verb, resource) for resource in (JOBS, SERVICE_ACCOUNTS) for verb in ("get", "create", "patch")
]
TO_WATCH: list[Permission] = [("watch", resource) for resource in (PODS, EVENTS, JOBS)]
POD_LOGS = Resource(api_version="v1", kind="Pod", plural="pods/log")
TO_STOP: list[tuple[str, Permission]] = [
    ("stop", ("get", JOBS)),
    ("stop", ("list", JOBS)),
    ("stop", ("patch", JOBS)),
    ("stop", ("list", PODS)),
    ("resume", ("patch", JOBS)),
]
TO_FOLLOW: list[Permission] = [
    (verb, resource) for resource in (PODS, EVENTS, JOBS, NODES) for verb in ("list", "watch")
]


def _without(rules: list[dict[str, Any]], missing: Permission | None) -> list[dict[str, Any]]:
    """The rules as one for each resource, without one verb."""
    single = [{**rule, "resources": [plural]} for rule in rules for plural in rule["resources"]]
    if missing is None:
        return single
    verb, resource = missing
    fewer = [
        {**rule, "verbs": [one for one in rule["verbs"] if one != verb]}
        if (rule["apiGroups"], rule["resources"]) == ([resource.group], [resource.plural])
        else rule
        for rule in single
    ]
    return [rule for rule in fewer if rule["verbs"]]


def _line(permission: Permission) -> str:
    verb, resource = permission
    return (
        f'{{apiGroups: ["{resource.group}"], resources: ["{resource.plural}"], verbs: ["{verb}"]}}'
    )


class Person:
    """A user with all permissions but one."""

    def __init__(self, plane: ControlPlane, admin: ClusterClient, namespace: str) -> None:
        self.name = plane.new_user()
        self.client = plane.client(self.name)
        self._admin = admin
        self._namespace = namespace

    def loses(self, client: ClusterClient, missing: Permission | None) -> None:
        """Have everything but this, and wait until the API server has taken notice."""
        rules = _without([*SUBMIT_RULES, *WATCH_RULES], missing)
        grant(self._admin, self.name, self._namespace, rules)
        grant_everywhere(self._admin, self.name, _without(WATCH_CLUSTER_RULES, missing))

        def is_in_force() -> bool:
            return all(
                client.can_i(verb, resource, self._place(resource)) is ((verb, resource) != missing)
                for verb, resource in {*TO_SUBMIT, *TO_WATCH, *TO_FOLLOW}
            )

        eventually(is_in_force, f"{self.name} has everything but {missing}")

    def _place(self, resource: Resource) -> str | None:
        return self._namespace if resource.is_namespaced else None


def _called(*words: str | Path) -> tuple[int, str]:
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = run([*map(str, words)])
    assert "Traceback" not in err.getvalue()
    return code, out.getvalue() + err.getvalue()


def _doctor(kubeconfig: Path, path: Path) -> tuple[int, list[dict[str, str]]]:
    words = ["doctor", str(path), "--kubeconfig", str(kubeconfig), "--format", "json"]
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = run(words)
    assert out.getvalue() and "Traceback" not in err.getvalue(), err.getvalue()
    return code, json.loads(out.getvalue())["checks"]


def _objects(folder: Path, pool: str) -> Path:
    """What to submit. It asks for nodes of its own: those of other tests may have taints."""
    main = {"name": "main", "image": "example.com/train:1", "command": ["python", "x.py"]}
    spec = {
        "restartPolicy": "Never",
        "nodeSelector": {"pool": pool},
        "containers": [main],
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "run"},
        "spec": {"backoffLimit": 3, "template": {"spec": spec}},
    }
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "run"}}
    path = folder / "objects.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [account, job]}))
    return path


def test_doctor_names_each_missing_permission(
    control_plane: ControlPlane, admin: ClusterClient, namespace: str, tmp_path: Path
) -> None:
    person = Person(control_plane, admin, namespace)
    theirs = control_plane.kubeconfig(tmp_path / "theirs", person.name, namespace=namespace)
    path = _objects(tmp_path, namespace)
    with person.client as client:
        for missing in TO_SUBMIT:
            person.loses(client, missing)
            code, checks = _doctor(theirs, path)

            verb, resource = missing
            [failure] = [one for one in checks if f"you may not {verb} {resource} " in one["text"]]
            assert (code, failure["verdict"]) == (1, "FAIL"), checks
            assert _line(missing) in failure["next_step"]

        for missing in [*TO_WATCH, ("list", NODES)]:
            person.loses(client, missing)
            code, checks = _doctor(theirs, path)

            verb, resource = missing
            [warning] = [one for one in checks if f"you may not {verb} {resource}" in one["text"]]
            assert (code, warning["verdict"]) == (0, "warn"), checks
            assert _line(missing) in warning["next_step"]

        person.loses(client, None)
        code, checks = _doctor(theirs, path)
    assert code == 0
    assert not [one for one in checks if "you may not" in one["text"]]


def test_a_feed_goes_on_without_what_it_may_not_follow(
    control_plane: ControlPlane, admin: ClusterClient, namespace: str
) -> None:
    person = Person(control_plane, admin, namespace)
    queries = {
        Query(resource=one, namespace=namespace if one.is_namespaced else None): name_of
        for one in (PODS, EVENTS, JOBS, NODES)
    }
    with person.client as client:
        for missing in TO_FOLLOW:
            person.loses(client, missing)
            with Feed(client, queries, cut_streams=client.cut_streams) as feed:
                current: set[Resource] = set()
                while len(current) < 3 or not feed.ended:
                    update = feed.next(PATIENCE_SECONDS)
                    assert update is not None, (missing, current, feed.ended)
                    if update.kind is UpdateKind.CURRENT:
                        current.add(update.query.resource)
                ended = dict(feed.ended)

            [(query, error)] = ended.items()
            assert query.resource == missing[1]
            assert current == {PODS, EVENTS, JOBS, NODES} - {missing[1]}
            assert isinstance(error, ApiRefusal) and error.status == 403
            assert f"cannot {missing[0]} resource" in str(error)
            assert error.hint is not None and _line(missing) in error.hint


def test_stop_and_resume_name_each_missing_permission(
    control_plane: ControlPlane, admin: ClusterClient, namespace: str, tmp_path: Path
) -> None:
    person = Person(control_plane, admin, namespace)
    theirs = control_plane.kubeconfig(tmp_path / "theirs", person.name, namespace=namespace)
    kubeconfig = control_plane.kubeconfig(tmp_path / "admin", namespace=namespace)
    assert _called("submit", _objects(tmp_path, namespace), "--kubeconfig", kubeconfig)[0] == 0
    with person.client as client:
        for command, missing in TO_STOP:
            _called("resume" if command == "stop" else "stop", "run", "--kubeconfig", kubeconfig)
            person.loses(client, missing)
            code, text = _called(command, "run", "--kubeconfig", theirs)

            verb, resource = missing
            assert code in (1, 2), text
            assert text.count("error:") == text.count("hint:") == 1, text
            rule = text[text.index("{apiGroups") :]
            assert f'resources: ["{resource.plural}"]' in rule
            assert f'"{verb}"' in rule

        # The Role for submitting is enough.
        grant(admin, person.name, namespace, SUBMIT_RULES)
        for command in ("resume", "stop"):
            eventually(partial(_is_permitted, command, theirs), f"{command} is permitted")


def _is_permitted(command: str, kubeconfig: Path) -> bool:
    return "error:" not in _called(command, "run", "--kubeconfig", kubeconfig)[1]


def test_logs_name_each_missing_permission(
    control_plane: ControlPlane, admin: ClusterClient, namespace: str, tmp_path: Path
) -> None:
    person = Person(control_plane, admin, namespace)
    theirs = control_plane.kubeconfig(tmp_path / "theirs", person.name, namespace=namespace)
    with live_run(control_plane, admin, namespace) as live, person.client as client:
        agent = live.node()
        live.job()
        live.started(agent)
        for missing in (("get", JOBS), ("list", PODS)):
            person.loses(client, missing)
            code, text = _called("logs", "run", "--kubeconfig", theirs)

            assert code in (1, 2), text
            assert text.count("error:") == text.count("hint:") == 1, text
            assert f'resources: ["{missing[1].plural}"]' in text

        person.loses(client, ("get", POD_LOGS))
        eventually(lambda: not _is_permitted("logs", theirs), "the rules are in force")
        code, text = _called("logs", "run", "--kubeconfig", theirs)
        assert code == 1
        assert _line(("get", POD_LOGS)) in text
        person.loses(client, None)
        eventually(lambda: _prints_a_log(theirs), "the rules are in force")


def _prints_a_log(kubeconfig: Path) -> bool:
    with outlast("logs", "run", "--kubeconfig", str(kubeconfig)) as logs:
        return logs.wait() == 0 and "running" in logs.output


def test_a_policy_that_refuses_is_not_taken_for_a_missing_permission(
    control_plane: ControlPlane, admin: ClusterClient, namespace: str, tmp_path: Path
) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": namespace},
        "spec": {"hard": {"count/jobs.batch": "0"}},
    }
    admin.apply(QUOTAS, quota)
    eventually(
        lambda: (admin.get(QUOTAS, "none", namespace) or {}).get("status", {}).get("hard"),
        "the quota is in force",
    )
    kubeconfig = control_plane.kubeconfig(tmp_path / "kubeconfig", namespace=namespace)
    words = ["submit", str(_objects(tmp_path, namespace)), "--kubeconfig", str(kubeconfig)]

    with redirect_stdout(StringIO()), redirect_stderr(StringIO()) as err:
        code = run(words)

    assert code == 1
    assert "exceeded quota: none" in err.getvalue()
    assert "not your Role" in err.getvalue()
