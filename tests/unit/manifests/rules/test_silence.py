"""Where the first rules must stay silent, and what else they catch."""

import pytest

from outlast.manifests.lint.engine.configuration import LintOptions
from tests.unit.manifests.lint.linted import SPOT_JOB, fixed, lines, manifest, only, report

SPOT_SELECTOR = '      nodeSelector:\n        cloud.google.com/gke-spot: "true"\n'
PRESENT = SPOT_JOB.replace("registry.example/trainer", "registry.example/trainer:1.0")


def codes(*texts: str, pools_sh: str = "") -> set[str]:
    return {one.code for one in report(*texts, pools_sh=pools_sh)}


def test_an_on_demand_job_is_nobodys_business() -> None:
    assert codes(PRESENT.replace(SPOT_SELECTOR, "")) == set()
    assert (
        codes(PRESENT.replace("gke-spot", "gke-provisioning").replace('"true"', "standard"))
        == set()
    )


def test_a_daemon_set_that_tolerates_everything_is_fine() -> None:
    text = manifest(
        "apps/v1",
        "DaemonSet",
        "spec:\n  selector: {matchLabels: {a: b}}\n  template:\n"
        "    metadata: {labels: {a: b}}\n    spec:\n"
        "      tolerations:\n      - {operator: Exists}\n"
        "      - {key: cloud.google.com/gke-spot, operator: Exists}\n"
        "      containers:\n      - {name: a, image: 'x:1'}\n",
    )

    assert codes(text) == set()


def test_a_job_set_has_failure_policies_of_its_own() -> None:
    job = PRESENT.partition("spec:\n")[2].replace("\n", "\n      ")
    text = manifest(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        "spec:\n  failurePolicy: {maxRestarts: 3}\n  replicatedJobs:\n  - name: w\n    template:\n"
        f"      spec:\n      {job}",
    )

    assert codes(text) == {"OL101", "OL116", "OL301"}


def test_a_policy_that_ignores_disruptions_leaves_the_default_limit_alone() -> None:
    rule = "{action: Count, onPodConditions: [{type: DisruptionTarget}]}"
    policy = f"  podFailurePolicy:\n    rules: [{rule}]\n"
    text = PRESENT.replace("spec:\n  template", f"spec:\n{policy}  template", 1)

    assert "OL104" in codes(text)
    assert "OL104" not in codes(text.replace("Count", "Ignore"))
    assert "OL104" not in codes(PRESENT.replace("spec:\n  t", "spec:\n  backoffLimit: 50\n  t", 1))


@pytest.mark.parametrize(
    ("expression", "is_found"),
    [
        ('kube_pod_status_phase{phase="Pending"} > 0', True),
        ("kube_pod_status_unschedulable > 0", True),
        ("kueue_pending_workloads > 3", True),
        ("up == 0", False),
    ],
)
def test_an_alert_is_known_by_what_it_watches(expression: str, is_found: bool) -> None:
    rule = manifest(
        "monitoring.coreos.com/v1",
        "PrometheusRule",
        f"spec:\n  groups:\n  - name: a\n    rules:\n    - alert: A\n      expr: {expression!r}\n",
    )
    config = manifest(
        "v1", "ConfigMap", f"data:\n  rules.yml: |\n    - alert: A\n      expr: {expression}\n"
    )

    for text in (rule, config):
        assert ("OL301" not in codes(PRESENT, text)) is is_found


@pytest.mark.parametrize(
    ("value", "is_flagged"),
    [
        ("/mnt/checkpoints", True),
        ("file:///mnt/checkpoints", True),
        ("/mnt/$(POD_NAME)", True),
        ("/data/runs", False),
        ("/data/$(POD_NAME)", False),
        ("gs://bucket/run", False),
        ("$(BASE)/run", False),
        ("runs", False),
    ],
)
@pytest.mark.parametrize("name", ["CHECKPOINT_DIR", "TRAIN_CKPT_PATH", "OUTLAST_RUN_URL"])
def test_a_checkpoint_folder_needs_a_volume(name: str, value: str, is_flagged: bool) -> None:
    text = PRESENT + (
        f"          env:\n          - {{name: {name}, value: {value!r}}}\n"
        "          volumeMounts:\n          - {name: d, mountPath: /data}\n"
        "      volumes:\n      - {name: d, persistentVolumeClaim: {claimName: d}}\n"
    )

    assert ("OL401" in codes(text)) is is_flagged


def test_a_variable_that_is_no_checkpoint_is_left_alone() -> None:
    text = PRESENT + "          env:\n          - {name: CHECKPOINT_INTERVAL, value: '/500'}\n"

    assert "OL401" not in codes(text)


POOL = "gcloud container node-pools create s --spot --node-taints=tier=cheap:NoSchedule\n"
TOLERATION = "      tolerations:\n      - {key: tier, value: cheap, effect: NoSchedule}\n"


def test_a_preference_beside_the_toleration_is_a_choice() -> None:
    term = "{matchExpressions: [{key: cloud.google.com/gke-spot, operator: Exists}]}"
    wish = (
        "      affinity:\n        nodeAffinity:\n"
        "          preferredDuringSchedulingIgnoredDuringExecution:\n"
        f"          - {{weight: 1, preference: {term}}}\n"
    )
    text = PRESENT.replace(SPOT_SELECTOR, TOLERATION)

    assert "OL501" in codes(text, pools_sh=POOL)
    assert "OL501" not in codes(text.replace(TOLERATION, TOLERATION + wish), pools_sh=POOL)


def test_a_pool_that_is_named_needs_no_other_selector() -> None:
    named = "      nodeSelector: {cloud.google.com/gke-nodepool: cheap}\n"
    spot = "      tolerations:\n      - {key: cloud.google.com/gke-spot, operator: Exists}\n"

    assert "OL501" in codes(PRESENT.replace(SPOT_SELECTOR, spot))
    assert "OL501" not in codes(PRESENT.replace(SPOT_SELECTOR, spot + named))


def test_the_selector_that_is_missing_can_be_added() -> None:
    text = PRESENT.replace(
        SPOT_SELECTOR,
        "      tolerations:\n      - {key: cloud.google.com/gke-spot, operator: Exists}\n",
    )

    result = fixed(text, unsafe=True, options=LintOptions(select=("OL501",)))

    assert 'nodeSelector:\n        cloud.google.com/gke-spot: "true"\n' in result
    assert lines(report(result), "OL501") == []


def test_a_spot_toleration_of_gke_is_removed_safely_and_ours_is_not() -> None:
    flex = PRESENT.replace("gke-spot", "gke-flex-start")
    gke = flex + "      tolerations:\n      - {key: cloud.google.com/gke-spot, operator: Exists}\n"
    both = gke + "      - {key: other, operator: Exists}\n"

    assert fixed(gke) == flex
    assert fixed(both) == flex + "      tolerations:\n      - {key: other, operator: Exists}\n"
    finding = only(report(flex + TOLERATION, pools_sh=POOL), "OL502")
    assert finding.fault.fix is not None and not finding.fault.fix.is_safe


@pytest.mark.parametrize(
    ("image", "is_flagged"),
    [
        ("busybox", True),
        ("registry.example:5000/a/b", True),
        ("a:latest", True),
        ("a:1.0", False),
        ("registry.example:5000/a:1", False),
        ("a@sha256:00", False),
        ("a:latest@sha256:00", False),
        ("${IMAGE}", False),
        ("<your-image>", False),
        ("ko://example.com/cmd", False),
    ],
)
def test_an_image_needs_a_version(image: str, is_flagged: bool) -> None:
    text = SPOT_JOB.replace("registry.example/trainer", repr(image))

    assert ("OL904" in codes(text)) is is_flagged


def test_a_number_in_quotes_is_what_was_written() -> None:
    text = manifest("v1", "ConfigMap", "data:\n  a: yes\n  b: 0o17  # octal\n  c: 1e3\n")

    assert fixed(text) == manifest(
        "v1", "ConfigMap", 'data:\n  a: "yes"\n  b: "0o17"  # octal\n  c: "1e3"\n'
    )


def test_a_name_that_is_taken_is_not_given_again() -> None:
    text = manifest(
        "batch/v1", "Job", "spec:\n  parallelism: 1\n  maxParallelism: 2\n  template: {}\n"
    )

    finding = only(report(text), "OL601")

    assert finding.hint == "Use 'parallelism'."
    assert not finding.fixable


def test_every_repeated_key_names_the_line_of_the_first() -> None:
    text = manifest("v1", "ConfigMap", "data:\n  a: '1'\n  b: '2'\n  a: '3'\n")

    finding = only(report(text), "OL902")

    assert finding.message == "The key 'a' is already set on line 5; only this value is used."
    assert (finding.line, finding.column) == (7, 3)
