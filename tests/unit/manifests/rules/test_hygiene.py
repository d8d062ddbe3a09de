"""Removed versions and Jobs without their number of indices."""

import pytest

from outlast.manifests.lint.engine.configuration import LintOptions
from tests.unit.manifests.lint.linted import fixed, lines, manifest, only, report


@pytest.mark.parametrize(
    ("version", "kind", "kubernetes", "is_gone"),
    [
        ("batch/v1beta1", "CronJob", "1.37", True),
        ("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema", "1.32", True),
        ("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema", "1.31", False),
        ("autoscaling/v2beta2", "HorizontalPodAutoscaler", "1.25", False),
        ("autoscaling/v2beta2", "HorizontalPodAutoscaler", "1.26", True),
        ("admissionregistration.k8s.io/v1beta1", "ValidatingAdmissionPolicy", "1.37", False),
        ("autoscaling.x-k8s.io/v1beta1", "ProvisioningRequest", "1.37", False),
    ],
)
def test_a_version_is_gone_from_a_release_on(
    version: str, kind: str, kubernetes: str, is_gone: bool
) -> None:
    options = LintOptions(kubernetes_version=kubernetes, select=("OL906",))
    found = report(manifest(version, kind, ""), options=options)

    assert bool(lines(found, "OL906")) is is_gone


def test_what_looks_the_same_is_rewritten_and_the_rest_is_not() -> None:
    job = manifest("batch/v1beta1", "CronJob", "spec: {schedule: '@daily'}\n")
    budget = manifest("policy/v1beta1", "PodDisruptionBudget", "spec: {maxUnavailable: 1}\n")
    options = LintOptions(select=("OL906",))

    assert fixed(job, unsafe=True, options=options) == job.replace("v1beta1", "v1")
    assert fixed(job, options=options) == job
    finding = only(report(budget), "OL906")
    assert (finding.hint, finding.fixable) == ("Use policy/v1.", False)


def job(spec: str) -> str:
    return manifest("batch/v1", "Job", f"spec:\n{spec}  template: {{spec: {{containers: []}}}}\n")


INDEXED = "  completionMode: Indexed\n"


@pytest.mark.parametrize(
    ("spec", "is_flagged"),
    [
        (INDEXED + "  parallelism: 3\n", True),
        (INDEXED + "  parallelism: 3\n  completions: 3\n", False),
        (INDEXED, False),
        ("  parallelism: 3\n", False),
        ("  completionMode: NonIndexed\n  parallelism: 3\n", False),
    ],
)
def test_an_indexed_job_says_how_many_indices_it_has(spec: str, is_flagged: bool) -> None:
    assert bool(lines(report(job(spec)), "OL907")) is is_flagged


def test_the_number_of_indices_is_mostly_that_of_the_pods() -> None:
    text = job(INDEXED + "  parallelism: 3\n")

    result = fixed(text, options=LintOptions(select=("OL907",)))

    assert "  completions: 3\n" in result
    assert lines(report(result), "OL907") == []
