"""The manifests of `tests/fixtures/api-server` and what a real API server answered to them."""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from outlast.yamltext.writing import to_yaml

FOLDER = Path(__file__).parents[3] / "fixtures" / "api-server"
ANSWERS = FOLDER / "answers.json"


@dataclass(frozen=True, kw_only=True)
class Cause:
    """One thing that the server objects to. `field` is empty if the server names none."""

    field: str
    reason: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the server answered: the HTTP status, and the reason if it refused."""

    status: int
    reason: str = ""
    message: str = ""
    causes: tuple[Cause, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Case:
    """A manifest under a name."""

    name: str
    text: str

    @property
    def data(self) -> dict[str, Any]:
        loaded: dict[str, Any] = yaml.safe_load(self.text)
        return loaded


def refused_cases() -> list[Case]:
    """Manifests that the server refuses: valid ones with one change each."""
    return [*changed_cases("refused.yaml"), *changed_cases("refused-held-out.yaml")]


def changed_cases(file: str) -> list[Case]:
    bases = yaml.safe_load((FOLDER / "bases.yaml").read_text())
    listed = yaml.safe_load((FOLDER / file).read_text())
    return [Case(name=one["name"], text=to_yaml(_changed(bases, one))) for one in listed]


def accepted_cases() -> list[Case]:
    """Manifests that the server accepts: the bases, changes of them, and those of `accepted/`."""
    bases = yaml.safe_load((FOLDER / "bases.yaml").read_text())
    found = [Case(name=f"base-{name}", text=to_yaml(base)) for name, base in bases.items()]
    found += changed_cases("accepted-changes.yaml")
    for path in sorted((FOLDER / "accepted").glob("*.yaml")):
        documents = [part for part in _documents(path.read_text()) if yaml.safe_load(part)]
        found += [
            Case(name=f"{path.stem}-{number}", text=text) for number, text in enumerate(documents)
        ]
    return found


@cache
def answers() -> dict[str, Answer]:
    recorded = json.loads(ANSWERS.read_text())
    return {
        name: Answer(
            status=answer["status"],
            reason=answer.get("reason", ""),
            message=answer.get("message", ""),
            causes=tuple(Cause(**cause) for cause in answer.get("causes", ())),
        )
        for name, answer in recorded["answers"].items()
    }


def _changed(bases: dict[str, Any], case: dict[str, Any]) -> Any:
    result = copy.deepcopy(bases[case["base"]])
    for path, value in case["set"].items():
        _put(result, [int(part) if part.isdecimal() else part for part in path.split("/")], value)
    return result


def _put(root: Any, path: list[Any], value: Any) -> None:
    node = root
    for part in path[:-1]:
        node = node[part] if isinstance(node, list) else node.setdefault(part, {})
    last = path[-1]
    if isinstance(node, list) and last == len(node):
        node.append(_expanded(value))
    elif value is None:
        del node[last]
    else:
        node[last] = _expanded(value)


def _expanded(value: Any) -> Any:
    """`{repeat: [text, count]}` and `{range: [start, stop]}` are written out."""
    if isinstance(value, dict) and set(value) == {"repeat"}:
        return value["repeat"][0] * value["repeat"][1]
    if isinstance(value, dict) and set(value) == {"range"}:
        return list(range(*value["range"]))
    return value


def _documents(text: str) -> Iterator[str]:
    lines: list[str] = []
    for line in text.splitlines(keepends=True):
        if line.rstrip() == "---":
            yield "".join(lines)
            lines = []
        else:
            lines.append(line)
    yield "".join(lines)
