"""Disruption budgets and leases: what a budget can do, over whom, and how long work may take."""

import pytest

from tests.unit.manifests.lint.linted import lines, manifest, only, report

POD = "containers: [{name: a, image: 'a:1'}]"


def budget(limit: str, selector: str = "matchLabels: {app: a}", namespace: str = "") -> str:
    text = manifest(
        "policy/v1", "PodDisruptionBudget", f"spec:\n  {limit}\n  selector: {{{selector}}}\n"
    )
    return text.replace("{name: x}", f"{{name: x, namespace: {namespace}}}") if namespace else text


def owner(kind: str, spec: str = "", namespace: str = "") -> str:
    version = {"Job": "batch/v1", "Pod": "v1"}.get(kind, "apps/v1")
    text = manifest(
        version,
        kind,
        f"spec:\n{spec}  template:\n    metadata: {{labels: {{app: a}}}}\n    spec: {{{POD}}}\n",
    )
    return text.replace("{name: x}", f"{{name: x, namespace: {namespace}}}") if namespace else text


@pytest.mark.parametrize(
    ("limit", "is_flagged"),
    [
        ("maxUnavailable: 1", True),
        ("maxUnavailable: 20%", True),
        ("minAvailable: 50%", True),
        ("minAvailable: 2", False),
    ],
)
@pytest.mark.parametrize(
    "selector",
    [
        "matchLabels: {app: a}",
        "matchLabels: {job-name: x}",
        "matchLabels: {batch.kubernetes.io/job-name: x}",
        "matchExpressions: [{key: app, operator: In, values: [b, a]}]",
        "matchExpressions: [{key: app, operator: Exists}]",
        "",
    ],
)
def test_over_a_job_only_a_whole_number_works(limit: str, selector: str, is_flagged: bool) -> None:
    found = report(budget(limit, selector), owner("Job"))

    assert bool(lines(found, "OL701")) is is_flagged


@pytest.mark.parametrize(
    ("selector", "kind", "namespace"),
    [
        ("matchLabels: {app: b}", "Job", ""),
        ("matchLabels: {app: a, more: b}", "Job", ""),
        ("matchLabels: {app: a}", "Deployment", ""),
        ("matchLabels: {app: a}", "Job", "elsewhere"),
        ("matchExpressions: [{key: app, operator: NotIn, values: [a]}]", "Job", ""),
        ("matchExpressions: [{key: [app], operator: {}, values: a}]", "Job", ""),
    ],
)
def test_a_budget_over_others_says_nothing_of_the_job(
    selector: str, kind: str, namespace: str
) -> None:
    text = budget("maxUnavailable: 1", selector, namespace="here" if namespace else "")

    assert lines(report(text, owner(kind, namespace=namespace)), "OL701") == []


SERVICE = manifest("v1", "Service", "spec: {selector: {app: a}, ports: [{port: 80}]}\n")


def test_a_server_with_replicas_wants_a_budget() -> None:
    server = owner("Deployment", "  replicas: 3\n")

    assert lines(report(server, SERVICE), "OL702") == [("OL702", 5)]
    assert lines(report(server, SERVICE, budget("maxUnavailable: 1")), "OL702") == []
    assert lines(report(server), "OL702") == []
    assert lines(report(owner("Deployment", "  replicas: 1\n"), SERVICE), "OL702") == []
    for other in ("ports: [{port: 80}]", "selector: {app: a}, clusterIP: None"):
        service = manifest("v1", "Service", f"spec: {{{other}}}\n")
        assert lines(report(server, service), "OL702") == []


@pytest.mark.parametrize(
    ("limit", "replicas", "is_flagged"),
    [
        ("maxUnavailable: 0", 3, True),
        ("maxUnavailable: 0%", 3, True),
        ("maxUnavailable: 1%", 3, False),
        ("maxUnavailable: false", 3, False),
        ("minAvailable: 100%", 3, True),
        ("minAvailable: 3", 3, True),
        ("minAvailable: 2", 3, False),
        ("minAvailable: 51%", 2, True),
        ("minAvailable: 50%", 2, False),
        ("minAvailable: 1", 1, True),
        ("minAvailable: 1", 0, False),
        ("minAvailable: 9999999999999%", 3, False),
    ],
)
def test_a_budget_leaves_one_to_spare(limit: str, replicas: int, is_flagged: bool) -> None:
    found = report(budget(limit), owner("Deployment", f"  replicas: {replicas}\n"))

    assert bool(lines(found, "OL704")) is is_flagged


def test_what_blocks_whatever_is_selected_needs_no_replicas_to_be_known() -> None:
    assert lines(report(budget("maxUnavailable: 0")), "OL704") != []
    assert lines(report(budget("minAvailable: 100%")), "OL704") != []
    assert lines(report(budget("minAvailable: 3")), "OL704") == []


def test_a_server_that_is_scaled_may_have_more() -> None:
    scaler = manifest(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "spec: {scaleTargetRef: {kind: Deployment, name: x}, maxReplicas: 9}\n",
    )
    server = owner("Deployment", "  replicas: 1\n")

    assert lines(report(budget("minAvailable: 1"), server), "OL704") != []
    assert lines(report(budget("minAvailable: 1"), server, scaler), "OL704") == []
    assert lines(report(budget("minAvailable: 1"), owner("Deployment")), "OL704") == []


def test_a_job_may_hold_up_a_drain() -> None:
    assert lines(report(budget("minAvailable: 1"), owner("Job")), "OL704") == []
    assert lines(report(budget("maxUnavailable: 0"), owner("Job")), "OL704") == []


def leased(deadline: int, selector: str = "", more: str = "") -> str:
    return manifest(
        "batch/v1",
        "Job",
        f"spec:\n  activeDeadlineSeconds: {deadline}\n  template:\n    spec:\n"
        f'      nodeSelector: {{cloud.google.com/gke-flex-start: "true"{selector}}}\n'
        f"      containers:\n      - name: a\n        image: a:1\n{more}",
    )


WEEK = 7 * 86_400
HOUR = ', cloud.google.com/gke-max-run-duration-seconds: "3600"'


@pytest.mark.parametrize(
    ("deadline", "selector", "is_flagged"),
    [
        (WEEK, "", False),
        (WEEK + 1, "", True),
        (3600, HOUR, False),
        (3601, HOUR, True),
        (3601, HOUR.replace("3600", "a lot"), False),
    ],
)
def test_work_fits_its_lease_or_resumes(deadline: int, selector: str, is_flagged: bool) -> None:
    assert bool(lines(report(leased(deadline, selector)), "OL703")) is is_flagged
    saving = "        env: [{name: OUTLAST_RUN_URL, value: 'gs://runs/a'}]\n"
    assert lines(report(leased(deadline, selector, saving)), "OL703") == []


def test_the_lease_of_the_pool_counts() -> None:
    pools = "gcloud container node-pools create f --flex-start --max-run-duration=1h\n"

    finding = only(report(leased(7200), pools_sh=pools), "OL703")

    assert "2.0 h" in finding.message and "60.0 min" in finding.message
    assert lines(report(leased(7200)), "OL703") == []
