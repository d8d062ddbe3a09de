"""The engine runs rules, orders what they find, and names a rule that fails."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from outlast.manifests import linting
from outlast.manifests.lint.engine.configuration import LintOptions
from outlast.manifests.lint.engine.files import InputFile
from outlast.manifests.lint.engine.loading import load
from outlast.manifests.lint.errors import LintError
from outlast.manifests.lint.kubernetes.review import Review
from outlast.manifests.lint.kubernetes.schemas import schemas_for
from outlast.manifests.lint.view import Fault, KubernetesObject
from outlast.manifests.rules import ALL_RULES
from tests.unit.manifests.lint.linted import SPOT_JOB, lines, report


def test_findings_come_in_the_order_of_files_and_lines() -> None:
    found = report(SPOT_JOB, SPOT_JOB)

    places = [(one.file, one.line, one.column) for one in found]
    assert places == sorted(places)
    assert {one.file for one in found} == {"a.yaml", "b.yaml"}


def test_what_an_anchor_shares_is_reported_once() -> None:
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: "
    text = (
        "apiVersion: v1\nkind: List\nitems:\n"
        f"- {pod}&spec {{containers: [{{name: a, image: x}}]}}}}\n"
        f"- {pod}*spec}}\n"
    )

    assert lines(report(text, options=LintOptions(select=("OL904",)))) == [("OL904", 4)]


def test_a_rule_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(manifest: KubernetesObject, review: Review) -> Iterator[Fault]:
        yield manifest.fault("fine")
        raise KeyError("spec")

    rule = replace(next(rule for rule in ALL_RULES if rule.name == "schema-error"), check=check)
    monkeypatch.setattr(linting, "ALL_RULES", (rule,))

    with pytest.raises(LintError, match="OL903 schema-error failed: KeyError: 'spec'") as caught:
        report(SPOT_JOB)

    assert "--ignore OL903" in (caught.value.hint or "")


def test_a_namespace_can_send_its_pods_to_a_compute_class() -> None:
    text = """\
apiVersion: v1
kind: Namespace
metadata:
  name: cheap
  labels: {cloud.google.com/default-compute-class: spotty}
---
apiVersion: cloud.google.com/v1
kind: ComputeClass
metadata: {name: spotty}
spec:
  priorities:
  - {machineFamily: g2, spot: true}
  - {machineFamily: g2}
---
"""
    job = SPOT_JOB.replace("  name: train\n", "  name: train\n  namespace: cheap\n", 1)
    job = job.replace('      nodeSelector:\n        cloud.google.com/gke-spot: "true"\n', "")

    assert ("OL101", 22) in lines(report(text + job))
    assert lines(report(job), "OL101") == []


def test_an_object_is_found_in_the_namespace_of_another() -> None:
    def claim(namespace: str) -> str:
        return f"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: d{namespace}}}\n"

    files = [
        load(InputFile(name=name, path=None, data=text.encode()))
        for name, text in {
            "a": claim(", namespace: one"),
            "b": claim(""),
            "c": "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: two}\n",
        }.items()
    ]
    review = Review(files, schemas=schemas_for())
    (pod,) = review.of_kind("Pod", group="")

    found = review.find("PersistentVolumeClaim", "d", near=pod)

    assert found is not None and found.source.name == "b"
    assert review.find("PersistentVolumeClaim", "other", near=pod) is None
    assert list(review.of_kind("Pod", group="apps")) == []


def test_a_selector_without_quotes_hides_no_other_finding() -> None:
    quoted = lines(report(SPOT_JOB))
    unquoted = lines(report(SPOT_JOB.replace('"true"', "true")))

    assert sorted(unquoted) == sorted([*quoted, ("OL503", 10)])
