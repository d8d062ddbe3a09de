"""The line that a Role lacks reads the same wherever a missing permission is reported."""

from typing import Any, cast

import pytest

from outlast.cluster.checks.permissions import check_permissions
from outlast.cluster.checks.result import Subject
from outlast.cluster.errors import ApiRefusal, forbidden_error, permission_hint
from outlast.cluster.resources import JOBS, NODES, PODS, Query
from outlast.cluster.roles import SUBMIT_RULES, RoleName, role_line, role_with
from outlast.cluster.watching.gaps import source_gaps

PODS_QUERY = Query(resource=PODS, namespace="team-a")


def forbidden(text: str) -> ApiRefusal:
    return ApiRefusal("Could not list", status=403, answer={"message": text})


def test_every_report_of_a_missing_permission_has_the_same_line() -> None:
    said = 'User "x" cannot list resource "pods" in API group "" in the namespace "team-a"'
    refusal = forbidden(said)
    [gap] = source_gaps({PODS_QUERY: refusal})

    assert role_line("", "pods", "list") in (refusal.hint or "")
    followed = role_line("", "pods", "get", "list", "watch")
    assert followed in gap
    assert followed in (forbidden_error(PODS_QUERY, refusal).hint or "")


def test_doctor_reports_the_same_line() -> None:
    class Strict:
        def find(self, api_version: str, kind: str) -> None:
            return None

        def can_i(self, verb: str, resource: object, namespace: str | None) -> bool:
            return (verb, resource) not in (("patch", JOBS), ("list", NODES))

    subject = Subject(cluster=cast("Any", Strict()), namespace="team-a", objects=())
    texts = [one.next_step for one in check_permissions(subject)]

    assert role_line("batch", "jobs", "patch") in texts
    assert role_line("", "nodes", "list", is_cluster_wide=True) in texts


def test_what_is_refused_at_the_cluster_scope_needs_a_cluster_role() -> None:
    """A Role cannot grant it: the line would be added in vain."""
    text = 'User "x" cannot list resource "nodes" in API group "" at the cluster scope'

    assert permission_hint(text).startswith('Add to a ClusterRole: {apiGroups: [""], ')


@pytest.mark.parametrize(
    ("group", "resource", "verb", "role"),
    [
        ("", "pods/log", "get", RoleName.WATCH),
        ("batch", "jobs", "watch", RoleName.WATCH),
        ("batch", "jobs", "patch", RoleName.SUBMIT),
        ("kueue.x-k8s.io", "workloads", "patch", RoleName.SUBMIT),
        ("", "secrets", "get", None),
    ],
)
def test_a_hint_names_a_role_only_if_it_has_the_permission(
    group: str, resource: str, verb: str, role: RoleName | None
) -> None:
    text = f'User "x" cannot {verb} resource "{resource}" in API group "{group}" in the namespace'

    assert role_with(group, resource, verb) is role
    assert ("doctor --role" in permission_hint(text)) is (role is not None)
    assert role is None or f"--role {role}" in permission_hint(text)


def test_the_role_for_submitting_covers_stopping_and_resuming() -> None:
    needed = [
        ("batch", "jobs", "list"),
        ("batch", "jobs", "patch"),
        ("jobset.x-k8s.io", "jobsets", "patch"),
        ("kueue.x-k8s.io", "workloads", "list"),
        ("kueue.x-k8s.io", "workloads", "patch"),
        ("", "pods", "list"),
        ("", "pods", "watch"),
    ]

    for group, resource, verb in needed:
        assert any(
            group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"]
            for rule in SUBMIT_RULES
        ), (resource, verb)
