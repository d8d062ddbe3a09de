"""Find where two runs first diverged, from the hashes that a run writes after each step. Pure.

The drill sets `OUTLAST_DRILL_HASHES` to a new file for each attempt. A run with this variable
appends lines of JSON:

    {"leaves": ["model.weight", "optimizer.exp_avg[3]"]}     before the first step
    {"step": 412, "hashes": ["9f86d081884c7d65", "60303ae22b998861"], "batch": "fd61a03af4f77d87"}

`step` is the number of steps done; a run that resumes writes one line for the step it resumed at,
before its first step. `hashes` are in the order of `leaves` and can have any length; `batch` is the
hash of the batch of that step, or missing. A run whose leaves change writes another line of
`leaves`. A line that was cut off by a kill is ignored. If hashing takes too long, a run may write
only `{"step": 413}`; steps that only one run has hashed are not compared. Leaves that differ from
the start, such as an unseeded random generator, are left out.
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
    """The first step after which the state was not the same, with the attempt and the leaf.

    `at_resume` means that the state was already wrong when that attempt resumed. `same_step` is the
    last step before it that was compared and was the same; hashes of steps between may be missing.
    """

    step: int
    leaf: str
    attempt: int
    at_resume: bool
    batch_differs: bool
    same_step: int | None = None

    @property
    def where(self) -> str:
        """The place for a sentence, such as `at step 412, opt.m, after attempt 2`."""
        return self._placed(str(self).partition(", ")[2])

    @property
    def place(self) -> str:
        """The step and the leaf alone."""
        return self._placed(self.leaf)

    def _placed(self, what: str) -> str:
        if self.at_resume or self.same_step is None or self.step - self.same_step <= 1:
            return f"at step {self.step}, {what}"
        return f"between step {self.same_step} and step {self.step}, {what}"

    def __str__(self) -> str:
        where = f"step {self.step}, {self.leaf}, "
        if self.at_resume:
            where += f"when attempt {self.attempt} resumed"
        elif self.attempt > 1:
            where += f"after attempt {self.attempt - 1}"
        else:
            where += "in attempt 1, before any eviction: the job is not deterministic"
        return where + ("; the batch differed" if self.batch_differs else "")


@dataclass(frozen=True, kw_only=True, slots=True)
class HashComparison:
    """`steps` counts the steps that both runs recorded; `last_step` is the last of them."""

    steps: int
    last_step: int
    divergence: Divergence | None


class StepHash(NamedTuple):
    step: int
    leaves: Mapping[str, str]
    batch: str | None


def read_hashes(path: Path) -> list[StepHash]:
    """The hashes that an attempt wrote, as far as they can be read."""
    return list(_hashes(_read_lines(path)))


def read_steps(path: Path) -> tuple[int, int] | None:
    """The first and the last step of an attempt; None if it recorded none."""
    steps = [line["step"] for line in _read_lines(path) if isinstance(line.get("step"), int)]
    return (steps[0], steps[-1]) if steps else None


def compare_hashes(
    baseline: Sequence[StepHash], evicted: Mapping[int, Sequence[StepHash]]
) -> HashComparison:
    """Compare the baseline with all attempts of the run with evictions, by their numbers."""
    expected = {one.step: one for one in baseline}
    compared = {one.step for hashes in evicted.values() for one in hashes} & set(expected)
    return HashComparison(
        steps=len(compared),
        last_step=max(compared, default=0),
        divergence=_first_divergence(expected, evicted),
    )


def _first_divergence(
    expected: Mapping[int, StepHash], evicted: Mapping[int, Sequence[StepHash]]
) -> Divergence | None:
    found = []
    never_same = _never_same(expected, evicted)
    for attempt, hashes in sorted(evicted.items()):
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
                    same_step=_last_same(expected, evicted, never_same, before=one.step),
                )
            )
            break
    return min(found, key=lambda one: (one.step, one.attempt), default=None)


def _last_same(
    expected: Mapping[int, StepHash],
    evicted: Mapping[int, Sequence[StepHash]],
    never_same: set[str],
    *,
    before: int,
) -> int | None:
    """The last step before another that was compared and was the same."""
    same = [
        one.step
        for hashes in evicted.values()
        for one in hashes
        if one.step < before
        and one.step in expected
        and not set(_differing(expected[one.step].leaves, one.leaves)) - never_same
    ]
    return max(same, default=None)


def _never_same(
    expected: Mapping[int, StepHash], evicted: Mapping[int, Sequence[StepHash]]
) -> set[str]:
    """The leaves that differed before the first step of all, which no eviction can explain.

    An attempt that was evicted during its startup has recorded nothing.
    """
    recorded = (hashes for _, hashes in sorted(evicted.items()) if hashes)
    first = next((hashes[0] for hashes in recorded), None)
    known = expected.get(first.step) if first is not None else None
    if first is None or known is None or first.step > 0:
        return set()
    return set(_differing(known.leaves, first.leaves))


def _differing(baseline: Mapping[str, str], evicted: Mapping[str, str]) -> list[str]:
    names = dict.fromkeys([*baseline, *evicted])
    return [name for name in names if baseline.get(name) != evicted.get(name)]


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
