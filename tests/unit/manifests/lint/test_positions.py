"""Every reported line and column is where the offending text starts, whatever the layout."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.manifests.lint.engine.report import Finding
from outlast.manifests.linting import examine
from outlast.manifests.rules import ALL_RULES
from outlast.yamltext.editing import plain
from outlast.yamltext.nodes import Path
from tests.unit.manifests.lint.linted import inputs, manifest, report
from tests.unit.manifests.rules.harness import FIXTURES

# These two have faults of the text itself, which no other layout would keep.
RULES = [
    rule
    for rule in ALL_RULES
    if rule.name not in ("invalid-yaml", "duplicate-key", "unused-ignore")
]
CASES = [
    (rule.name, list(yaml.safe_load_all((FIXTURES / rule.name / "flagged.yaml").read_text())))
    for rule in RULES
]

LAYOUTS = st.fixed_dictionaries(
    {
        "default_flow_style": st.sampled_from([None, True, False]),
        "indent": st.integers(2, 8),
        "width": st.integers(20, 200),
        "explicit_start": st.booleans(),
        "line_break": st.sampled_from(["\n", "\r\n"]),
    }
)


@settings(max_examples=150)
@given(st.sampled_from(CASES), LAYOUTS, st.integers(0, 3), st.booleans())
def test_a_finding_starts_at_its_text_in_any_yaml(
    case: tuple[str, list[Any]], layout: dict[str, Any], lines_before: int, is_list: bool
) -> None:
    name, documents = case
    whole = as_list(documents) if is_list or len(documents) > 1 else documents[0]
    break_ = layout["line_break"]
    text = f"# äöü{break_}" * lines_before + yaml.safe_dump(whole, **layout)

    found = examine(inputs(text, **pools_of(name)))

    assert found.findings
    check(text, whole, list(found))


@pytest.mark.parametrize("indent", [None, 2, 8])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_a_finding_starts_at_its_text_in_json(
    case: tuple[str, list[Any]], indent: int | None
) -> None:
    name, documents = case
    whole = as_list(documents) if len(documents) > 1 else documents[0]
    text = json.dumps(whole, indent=indent)

    found = examine(inputs(text, **pools_of(name)))

    assert found.findings
    check(text, whole, list(found))


def as_list(documents: list[Any]) -> dict[str, Any]:
    """All in one object, because some faults show only between several."""
    return {"apiVersion": "v1", "kind": "List", "items": documents}


def pools_of(name: str) -> dict[str, Any]:
    """The files that belong to the fixtures of a rule."""
    others = (path for path in (FIXTURES / name).iterdir() if path.stem not in ("flagged", "clean"))
    return {path.name.replace(".", "_"): path.read_text() for path in others}


def check(text: str, whole: Any, findings: list[Finding]) -> None:
    root = yaml.compose(text)
    for finding in findings:
        if finding.fault.view is None or finding.file != "a.yaml":
            continue
        prefix: Path = ()
        if whole.get("kind") == "List":
            prefix = ("items", whole["items"].index(plain(finding.fault.view.manifest.data)))
        path = (*prefix, *finding.fault.at)
        marks = {(mark.line + 1, mark.column + 1) for mark in candidates(root, path)}
        assert (finding.line, finding.column) in marks, (finding.where, path)
        assert (finding.end_line, finding.end_column) > (finding.line, finding.column)


def candidates(node: Any, path: Path) -> list[Any]:
    """Where PyYAML's own tree has the key and the value at a path, or the last part of it."""
    marks = [node.start_mark]
    for part in path:
        if isinstance(node, yaml.MappingNode):
            entry = next((e for e in node.value if e[0].value == part), None)
            if entry is None:
                break
            key, node = entry
            is_scalar = isinstance(node, yaml.ScalarNode) and node.value != ""
            marks = [key.start_mark, node.start_mark] if is_scalar else [key.start_mark]
        elif (
            isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value)
        ):
            node = node.value[part]
            marks = [node.start_mark]
        else:
            break
    return marks


def test_the_end_is_behind_the_text() -> None:
    text = manifest("v1", "Pod", "spec:\n  containers:\n  - {name: a, image: 'über' }\n")

    (finding,) = report(text)

    assert finding.line == finding.end_line == 6
    assert text.splitlines()[5][finding.column - 1 : finding.end_column - 1] == "'über'"
