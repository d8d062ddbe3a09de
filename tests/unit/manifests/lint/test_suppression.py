"""Ignores silence what they name, where they stand, and nothing else."""

from outlast.manifests.lint.engine.configuration import LintOptions
from tests.unit.manifests.lint.linted import SPOT_JOB, lines, only, report

IMAGES = LintOptions(select=("OL904", "OL905"))


def pod(image_comment: str = "", annotations: str = "") -> str:
    return f"""\
apiVersion: v1
kind: Pod
metadata:
  name: p
{annotations}spec:
  containers:
    - name: one
      image: first{image_comment}
    - name: two
      image: second
"""


def test_a_comment_silences_its_line() -> None:
    found = report(pod("  # outlast: ignore[OL904] mirrored by digest"), options=IMAGES)

    assert lines(found) == [("OL904", 10)]
    assert found.ignored == 1


def test_a_comment_may_use_the_name_of_the_rule() -> None:
    assert lines(report(pod(" # outlast:ignore[untagged-image]"), options=IMAGES)) == [
        ("OL904", 10)
    ]


def test_a_comment_alone_speaks_for_the_next_line() -> None:
    text = pod().replace(
        "      image: second",
        "      # outlast: ignore[OL904] mirrored\n      # more words\n\n      image: second",
    )

    assert lines(report(text, options=IMAGES)) == [("OL904", 8)]


def test_several_rules_fit_into_one_comment() -> None:
    text = SPOT_JOB.replace("Never", "Never # outlast: ignore[OL104, no-grace] tried")

    codes = [code for code, _ in lines(report(text))]

    assert "OL104" not in codes
    assert "OL101" in codes and "OL905" in codes


def test_a_comment_does_not_silence_another_line_or_another_rule() -> None:
    found = report(
        pod("  # outlast: ignore[OL101] wrong rule"), options=LintOptions(select=("OL904",))
    )

    assert lines(found) == [("OL904", 8), ("OL904", 10)]


def test_an_annotation_silences_the_object() -> None:
    note = '  annotations:\n    outlast/ignore: "OL904: mirrored"\n'

    found = report(pod(annotations=note), options=IMAGES)

    assert lines(found) == []
    assert found.ignored == 2


def test_an_annotation_silences_one_container() -> None:
    note = '  annotations:\n    outlast/ignore.two: "untagged-image: mirrored"\n'

    assert lines(report(pod(annotations=note), options=IMAGES)) == [("OL904", 10)]


def test_an_annotation_on_the_template_silences_its_pods_only() -> None:
    text = SPOT_JOB.replace(
        "    spec:\n      restart",
        "    metadata:\n      annotations:\n        outlast/ignore: |\n"
        "          OL904: mirrored\n          OL101, OL103: measured\n    spec:\n      restart",
    )

    found = report(text, options=LintOptions(select=("OL1", "OL904")))

    # The podFailurePolicy belongs to the Job, not to its Pods.
    assert [code for code, _ in lines(found)] == ["OL103", "OL104"]


def test_a_json_file_can_be_annotated_too() -> None:
    text = """{"apiVersion": "v1", "kind": "Pod",
      "metadata": {"name": "p", "annotations": {"outlast/ignore": "OL904: mirrored"}},
      "spec": {"containers": [{"name": "a", "image": "first"}]}}"""

    assert lines(report(text, options=IMAGES)) == []


def test_an_ignore_that_silences_nothing_is_told() -> None:
    text = pod(" # outlast: ignore[OL904] fine").replace("first", "first:1.0")

    finding = only(report(text, options=IMAGES), "OL905")

    assert finding.line == 8
    assert finding.message == "OL904 no longer finds anything here."


def test_a_mistyped_code_is_told() -> None:
    finding = only(report(pod(" # outlast: ignore[OL940] oops"), options=IMAGES), "OL905")

    assert finding.message == "Unknown rule 'OL940'."


def test_an_ignore_without_a_code_is_told() -> None:
    finding = only(report(pod(" # outlast: ignore all of it"), options=IMAGES), "OL905")

    assert finding.message == "This ignore does not name a rule, so it has no effect."


def test_an_ignore_is_not_idle_if_its_rule_did_not_run() -> None:
    text = pod(" # outlast: ignore[OL101] not asked for")

    assert lines(report(text, options=LintOptions(select=("OL905",)))) == []
