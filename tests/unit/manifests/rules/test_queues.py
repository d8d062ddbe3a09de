"""What the rules on queues catch beyond their fixtures, where they are silent, and their fixes."""

import pytest

from outlast.manifests.lint.engine.configuration import LintOptions
from outlast.manifests.lint.engine.report import Finding
from tests.unit.manifests.lint.linted import fixed, manifest, report

FLEX = '{cloud.google.com/gke-flex-start: "true"}'
API = "kueue.x-k8s.io/v1beta2"


def found(code: str, *texts: str, **files: str) -> list[Finding]:
    return list(report(*texts, options=LintOptions(select=(code,)), **files))


def lines(code: str, *texts: str) -> list[int]:
    return [finding.line for finding in found(code, *texts)]


def mended(code: str, text: str) -> str:
    result = fixed(text, unsafe=True, options=LintOptions(select=(code,)))
    assert fixed(result, unsafe=True, options=LintOptions(select=(code,))) == result
    assert found(code, result) == []
    return result


def queued_job(queue: str = "q", namespace: str = "", resources: str = "") -> str:
    where = f"\n  namespace: {namespace}" if namespace else ""
    limits = f", resources: {{limits: {{{resources}}}}}" if resources else ""
    return (
        f"apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: j{where}\n"
        f"  labels: {{kueue.x-k8s.io/queue-name: {queue}}}\n"
        "spec:\n  template:\n    spec:\n      restartPolicy: Never\n"
        f"      containers: [{{name: a, image: 'x:1'{limits}}}]\n"
    )


def object_of(kind: str, name: str, spec: str = "{}", namespace: str = "") -> str:
    where = f", namespace: {namespace}" if namespace else ""
    return f"apiVersion: {API}\nkind: {kind}\nmetadata: {{name: {name}{where}}}\nspec: {spec}\n"


def together(*texts: str) -> str:
    return "---\n".join(texts)


def alert(expression: str, kind: str = "PrometheusRule") -> str:
    rules = f"[{{alert: A, expr: {expression!r}}}]"
    return manifest("monitoring.coreos.com/v1", kind, f"spec: {{groups: [{{rules: {rules}}}]}}\n")


PENDING = 'kube_pod_status_phase{phase="Pending"} > 0'


@pytest.mark.parametrize(
    ("texts", "count"),
    [
        ((queued_job(), alert(PENDING)), 1),
        ((queued_job(), alert("kube_pod_status_unschedulable > 0", "ClusterRules")), 1),
        ((queued_job(), alert(PENDING), alert("kueue_pending_workloads > 0")), 0),
        ((queued_job(), alert("kube_pod_status_phase{phase='Failed'} > 0")), 0),
        ((queued_job(),), 0),
        ((alert(PENDING),), 0),
        ((object_of("LocalQueue", "q"), alert(PENDING)), 0),
    ],
)
def test_an_alert_on_pods_does_not_watch_a_queue(texts: tuple[str, ...], count: int) -> None:
    assert len(found("OL302", *texts)) == count


def test_an_alert_in_a_config_map_is_known_too() -> None:
    rules = f"  r.yml: |\n    groups:\n    - rules:\n      - alert: A\n        expr: {PENDING}\n"

    assert lines("OL302", queued_job(), manifest("v1", "ConfigMap", f"data:\n{rules}")) == [5]


KEY = "provreq.kueue.x-k8s.io/maxRunDurationSeconds"


def annotated(metadata: str, template: str, api: str = "batch/v1", kind: str = "Job") -> str:
    return (
        f"apiVersion: {api}\nkind: {kind}\nmetadata:\n  name: j\n{metadata}spec:\n"
        f"  template:\n{template}    spec:\n      containers: [{{name: a, image: 'x:1'}}]\n"
    )


ON_JOB = f'  annotations:\n    {KEY}: "60"\n'
ON_POD = f'    metadata:\n      annotations:\n        {KEY}: "60"\n'


def test_the_duration_belongs_to_what_kueue_queues() -> None:
    assert lines("OL303", annotated("", ON_POD)) == [9]
    assert found("OL303", annotated(ON_JOB, "")) == []
    assert found("OL303", annotated(ON_JOB, ON_POD)) == []
    assert found("OL303", annotated("", ON_POD, "apps/v1", "Deployment")) == []
    assert (
        found("OL303", manifest("v1", "Pod", "").replace("x}", f"x, annotations: {{{KEY}: '6'}}}}"))
        == []
    )


@pytest.mark.parametrize(
    ("metadata", "template", "expected"),
    [
        ("", ON_POD, annotated(ON_JOB, "")),
        (
            "  annotations:\n    a: b\n",
            ON_POD + "        c: d\n",
            annotated(
                f'  annotations:\n    a: b\n    {KEY}: "60"\n',
                "    metadata:\n      annotations:\n        c: d\n",
            ),
        ),
        (
            "",
            "    metadata:\n      labels: {a: b}\n" + ON_POD.partition("\n")[2],
            annotated(ON_JOB, "    metadata:\n      labels: {a: b}\n"),
        ),
    ],
)
def test_the_duration_is_moved_to_the_job(metadata: str, template: str, expected: str) -> None:
    assert mended("OL303", annotated(metadata, template)) == expected


def test_in_a_cron_job_it_belongs_to_the_template_of_the_job() -> None:
    text = (
        "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: j}\nspec:\n  jobTemplate:\n"
        "    spec:\n      template:\n        metadata:\n          annotations:\n"
        f'            {KEY}: "60"\n        spec:\n          containers: []\n'
    )

    result = mended("OL303", text)

    assert f'    metadata:\n      annotations:\n        {KEY}: "60"\n' in result


CLUSTER = object_of(
    "ClusterQueue",
    "cq",
    "{namespaceSelector: {}, resourceGroups: [{coveredResources: [cpu], flavors: [{name: f}]}]}",
)
LOCAL = object_of("LocalQueue", "q", "{clusterQueue: cq}", namespace="ml")
FLAVOR = object_of("ResourceFlavor", "f")
GPU = "nvidia.com/gpu: 1"


@pytest.mark.parametrize(
    ("texts", "messages"),
    [
        ((together(FLAVOR, CLUSTER, LOCAL, queued_job()),), []),
        # Nothing is known of what no file defines.
        ((queued_job("other"),), []),
        ((LOCAL, queued_job("other")), []),
        ((together(LOCAL, queued_job("other")),), ["No LocalQueue named 'other' is defined here."]),
        (
            (together(LOCAL, object_of("ClusterQueue", "z")),),
            ["No ClusterQueue named 'cq' is defined here."],
        ),
        ((CLUSTER, object_of("ResourceFlavor", "gpu")), []),
        (
            (together(CLUSTER, object_of("ResourceFlavor", "gpu")),),
            ["No ResourceFlavor named 'f' is defined here. Defined: 'gpu'."],
        ),
        ((object_of("LocalQueue", "research"), queued_job("reserach")), ["No LocalQueue named"]),
        ((object_of("LocalQueue", "research"), queued_job("research-2")), []),
        ((object_of("LocalQueue", "team-1"), queued_job("team-7")), []),
        ((CLUSTER, LOCAL, queued_job(resources=GPU)), ["ClusterQueue 'cq' does not cover"]),
        ((CLUSTER, LOCAL, queued_job(resources="cpu: 1")), []),
        ((LOCAL, queued_job(resources=GPU)), []),
        # The same names in another setup: one of them has what is asked for.
        (
            (
                CLUSTER,
                CLUSTER.replace("[cpu]", "[nvidia.com/gpu]"),
                LOCAL,
                queued_job(resources=GPU),
            ),
            [],
        ),
        (
            (CLUSTER.replace("namespaceSelector: {}, ", ""), LOCAL),
            ["The ClusterQueue has no namespaceSelector"],
        ),
        ((CLUSTER.replace("namespaceSelector: {}, ", ""),), []),
        (
            (
                CLUSTER.replace(
                    "namespaceSelector: {}",
                    "namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: other}}",
                ),
                LOCAL,
            ),
            ["ClusterQueue 'cq' admits only namespace 'other'"],
        ),
    ],
)
def test_the_chain_holds_or_says_where_it_breaks(
    texts: tuple[str, ...], messages: list[str]
) -> None:
    findings = found("OL304", *texts)

    assert len(findings) == len(messages), [finding.message for finding in findings]
    for finding, message in zip(findings, messages, strict=True):
        assert finding.message.startswith(message)


def test_checks_and_their_parameters_are_a_part_of_the_chain() -> None:
    parameters = "{kind: ProvisioningRequestConfig, name: wrong}"
    text = together(
        object_of(
            "ClusterQueue", "cq", "{admissionChecksStrategy: {admissionChecks: [{name: x}]}}"
        ),
        object_of("AdmissionCheck", "dws", f"{{parameters: {parameters}}}"),
        object_of("ProvisioningRequestConfig", "dws"),
    )

    assert [finding.message for finding in found("OL304", text)] == [
        "No AdmissionCheck named 'x' is defined here. Defined: 'dws'.",
        "No ProvisioningRequestConfig named 'wrong' is defined here. Defined: 'dws'.",
    ]
    assert "[{name: dws}]" in mended("OL304", text)


def test_a_queue_serves_its_own_namespace() -> None:
    elsewhere = queued_job(namespace="cv")

    (finding,) = found("OL305", LOCAL, elsewhere)
    assert finding.message == "LocalQueue 'q' is in namespace 'ml', but this Job is in 'cv'."
    assert found("OL304", LOCAL, elsewhere) == []
    assert found("OL305", LOCAL, LOCAL.replace("ml", "cv"), elsewhere) == []
    assert found("OL305", LOCAL, queued_job()) == []
    assert found("OL305", LOCAL, queued_job("other", namespace="cv")) == []


def job(selector: str, labels: str = "{}", deadline: str = "  activeDeadlineSeconds: 60\n") -> str:
    return (
        f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: j, labels: {labels}}}\n"
        f"spec:\n{deadline}  template:\n    spec:\n      nodeSelector: {selector}\n"
        "      containers: [{name: a, image: 'x:1'}]\n"
    )


QUEUE = "{kueue.x-k8s.io/queue-name: q}"
SPOT = FLEX.replace("flex-start", "spot")


@pytest.mark.parametrize(
    ("text", "is_flagged"),
    [
        (job(FLEX), True),
        (job(SPOT), True),
        (job("{}"), False),
        (job("{cloud.google.com/gke-provisioning: standard}"), False),
        (job(FLEX, deadline=""), False),
        (job(FLEX, QUEUE), False),
        # Admitted by its quota, it may still wait for Spot nodes, and again after each eviction.
        (job(SPOT, QUEUE), True),
    ],
)
def test_a_deadline_runs_while_pods_wait(text: str, is_flagged: bool) -> None:
    assert bool(found("OL306", text)) is is_flagged
