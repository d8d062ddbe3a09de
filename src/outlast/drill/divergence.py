"""Where two legs first went apart, from the hashes that a run writes down after each step. Pure.

The drill sets `OUTLAST_DRILL_HASHES` to a file that does not exist yet, another one for each
attempt. A run that finds it appends lines of JSON:

    {"leaves": ["model.weight", "optimizer.exp_avg[3]"]}     before the first step
    {"step": 412, "hashes": ["9f86d081884c7d65", "60303ae22b998861"], "batch": "fd61a03af4f77d87"}

`step` is the number of steps done; a run that resumes writes one line for the step it resumed at,
before the first step of its own. `hashes` are in the order of `leaves`, as short as one likes, and
`batch` is the hash of the batch of that step, or missing. A run whose leaves change writes another
line of `leaves`. A line may be torn by a kill: it is passed over. Where hashing takes too long, a
run may write `{"step": 413}` alone; only hashes that both legs have are compared. Leaves that
differ from the start, such as a random generator that nobody seeded, say nothing about evictions
and are left out.
"""

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

VARIABLE = "OUTLAST_DRILL_HASHES"


@dataclass(frozen=True, kw_only=True, slots=True)
class Divergence:
    """The first step after which the state was not the same, in which attempt, and in which leaf.

    `at_resume` says that the state was wrong already when that attempt resumed.
    """

    step: int
    leaf: str
    attempt: int
    at_resume: bool
    batch_differs: bool

    def __str__(self) -> str:
        where = f"step {self.step}, {self.leaf}, "
        if self.at_resume:
            where += f"as soon as attempt {self.attempt} had resumed"
        elif self.attempt > 1:
            where += f"after attempt {self.attempt - 1}"
        else:
            where += "in attempt 1, before any eviction: it is not repeatable by itself"
        return where + ("; the batch differed" if self.batch_differs else "")


@dataclass(frozen=True, kw_only=True, slots=True)
class HashComparison:
    """`steps` counts the steps that both legs wrote down; `last_step` is the last of them."""

    steps: int
    last_step: int
    divergence: Divergence | None


class StepHash(NamedTuple):
    step: int
    leaves: Mapping[str, str]
    batch: str | None


def read_hashes(path: Path) -> list[StepHash]:
    """The hashes that an attempt wrote down, as far as they can be read."""
    return list(_hashes(_read_lines(path)))


def read_steps(path: Path) -> tuple[int, int] | None:
    """At which step an attempt began and how far it came; None if it did not come to say so."""
    steps = [line["step"] for line in _read_lines(path) if isinstance(line.get("step"), int)]
    return (steps[0], steps[-1]) if steps else None


def compare_hashes(
    calm: Sequence[StepHash], disturbed: Mapping[int, Sequence[StepHash]]
) -> HashComparison:
    """Compare the baseline with all attempts of the disturbed leg, by their numbers."""
    expected = {one.step: one for one in calm}
    compared = {one.step for hashes in disturbed.values() for one in hashes} & set(expected)
    return HashComparison(
        steps=len(compared),
        last_step=max(compared, default=0),
        divergence=_first_divergence(expected, disturbed),
    )


def _first_divergence(
    expected: Mapping[int, StepHash], disturbed: Mapping[int, Sequence[StepHash]]
) -> Divergence | None:
    found = []
    never_same = _never_same(expected, disturbed)
    for attempt, hashes in sorted(disturbed.items()):
        for index, one in enumerate(hashes):
            known = expected.get(one.step)
            if known is None:
                continue
            differing = [
                name for name in _differing(known.leaves, one.leaves) if name not in never_same
            ]
            if not differing:
                continue
            batch_differs = None not in (known.batch, one.batch) and known.batch != one.batch
            found.append(
                Divergence(
                    step=one.step,
                    leaf=differing[0],
                    attempt=attempt,
                    at_resume=index == 0 and attempt > 1,
                    batch_differs=batch_differs,
                )
            )
            break
    return min(found, key=lambda one: (one.step, one.attempt), default=None)


def _never_same(
    expected: Mapping[int, StepHash], disturbed: Mapping[int, Sequence[StepHash]]
) -> set[str]:
    """What differed before the first step was done, when nothing had been disturbed yet."""
    first = next(iter(disturbed.get(1, ())), None)
    known = expected.get(first.step) if first is not None else None
    if first is None or known is None or first.step > 0:
        return set()
    return set(_differing(known.leaves, first.leaves))


def _differing(calm: Mapping[str, str], disturbed: Mapping[str, str]) -> list[str]:
    names = dict.fromkeys([*calm, *disturbed])
    return [name for name in names if calm.get(name) != disturbed.get(name)]


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(line)
            if isinstance(found, dict):
                yield found


def _hashes(lines: Iterable[dict[str, Any]]) -> Iterator[StepHash]:
    leaves: list[str] = []
    for found in lines:
        if isinstance(found.get("leaves"), list):
            leaves = [str(name) for name in found["leaves"]]
            continue
        step, hashes, batch = found.get("step"), found.get("hashes"), found.get("batch")
        if isinstance(step, int) and isinstance(hashes, list) and len(hashes) == len(leaves):
            named = dict(zip(leaves, map(str, hashes), strict=True))
            yield StepHash(step, named, str(batch) if batch is not None else None)
