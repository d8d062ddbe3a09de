"""Find the items that a run with evictions lost or stored twice, from the rows of both runs. Pure.

An item is identified by its key: a column whose values are all different in the baseline, where
every item is stored once. A key that is missing is a lost item; one that occurs more often than in
the baseline is a duplicate.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from outlast.drills.compare.rows import Cell, Table
from outlast.drills.errors import DrillError

_EXAMPLES = 3
_SHARED_MIN = 0.5
_USUAL = ("key", "item_key", "item", "item_id", "task", "task_id", "id", "name")


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemDifference:
    """`lost` and `doubled` count items; `key` lists the columns that identify them.

    `changed` is the first difference between rows with the same key, or a key that is not in the
    baseline.
    """

    key: tuple[str, ...]
    items: int
    lost: int
    doubled: int
    lost_examples: tuple[str, ...] = ()
    doubled_examples: tuple[str, ...] = ()
    changed: str | None = None


def compare_items(
    baseline: Table,
    evicted: Table,
    *,
    key: str | None = None,
    same: Callable[[Cell, Cell], bool] = lambda one, other: one == other,
) -> ItemDifference:
    """Compare the items of two runs. `same` compares two cells."""
    columns = _key_columns(baseline, evicted, key)
    before, after = _keys(baseline, columns), _keys(evicted, columns)
    counted, recounted = Counter(before), Counter(after)
    lost = counted - recounted
    doubled = Counter(
        {one: count for one, count in (recounted - counted).items() if one in counted}
    )
    return ItemDifference(
        key=columns,
        items=len(before),
        lost=lost.total(),
        doubled=doubled.total(),
        lost_examples=_examples(lost),
        doubled_examples=_examples(doubled),
        changed=_first_change(baseline, evicted, columns, same),
    )


def check_key(key: str, tables: Sequence[Table]) -> None:
    """Raise `DrillError` if no table has the column, probably because of a typo."""
    columns = dict.fromkeys(name for table in tables for name in table.columns)
    if columns and key not in columns:
        raise DrillError(
            f"No expected file has the column {key!r} given by --key.",
            hint=f"Their columns: {', '.join(columns)}.",
        )


def _key_columns(baseline: Table, evicted: Table, key: str | None) -> tuple[str, ...]:
    shared = [name for name in baseline.columns if name in evicted.columns or not evicted.rows]
    if key is not None and key in shared:
        return (key,)
    fit = [name for name in shared if not _is_fractional(baseline, name)]
    named = [name for name in _USUAL if name in fit]
    ordered = list(dict.fromkeys([*named, *fit]))
    # An automatic number is different even when an item is stored twice.
    ordered.sort(key=lambda name: name in baseline.own_numbers)
    single = [(name,) for name in ordered]
    joined = [tuple(fit[:width]) for width in range(2, min(len(fit), 4) + 1)]
    for columns in [*single, *joined]:
        if _is_key(baseline, evicted, columns):
            return columns
    return tuple(name for name in shared if name not in baseline.own_numbers) or tuple(shared)


def _is_key(baseline: Table, evicted: Table, columns: tuple[str, ...]) -> bool:
    """Whether it is unique in the baseline, and has the same values in both runs."""
    before = _keys(baseline, columns)
    known = set(before)
    if len(known) < len(before):
        return False
    after = set(_keys(evicted, columns))
    return not after or len(after & known) >= _SHARED_MIN * len(after)


def _is_fractional(table: Table, column: str) -> bool:
    """Whether it has fractions, which are results and not keys."""
    place = table.columns.index(column)
    return any(_has_fraction(row[place]) for row in table.rows)


def _has_fraction(cell: Cell) -> bool:
    if isinstance(cell, float):
        return True
    if not isinstance(cell, str) or not any(mark in cell for mark in ".eE"):
        return False
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _keys(table: Table, columns: Sequence[str]) -> list[tuple[Cell, ...]]:
    if not table.columns:
        return []
    places = [table.columns.index(name) for name in columns]
    return [tuple(row[place] for place in places) for row in table.rows]


def _examples(counter: Counter[tuple[Cell, ...]]) -> tuple[str, ...]:
    found = sorted(counter, key=str)[:_EXAMPLES]
    return tuple(" ".join(str(cell)[:60] for cell in key) for key in found)


def _first_change(
    baseline: Table,
    evicted: Table,
    columns: Sequence[str],
    same: Callable[[Cell, Cell], bool],
) -> str | None:
    if not evicted.rows:
        return None
    rest = [
        name
        for name in baseline.columns
        if name not in columns and name not in baseline.own_numbers
    ]
    if missing := [name for name in rest if name not in evicted.columns]:
        return f"the column {missing[0]!r} is missing"
    before: dict[tuple[Cell, ...], dict[tuple[Cell, ...], None]] = {}
    for key, values in zip(_keys(baseline, columns), _keys(baseline, rest), strict=True):
        before.setdefault(key, {})[values] = None
    for key, values in zip(_keys(evicted, columns), _keys(evicted, rest), strict=True):
        shown = " ".join(str(cell)[:60] for cell in key)
        if key not in before:
            return f"{shown!r} is not in the baseline"
        # Equal rows first, in one lookup: a key that is not unique may have thousands.
        if values in before[key] or any(all(map(same, known, values)) for known in before[key]):
            continue
        for name, one, other in zip(rest, next(iter(before[key])), values, strict=True):
            if not same(one, other):
                return f"{name!r} of {shown!r} is {_short(other)}, not {_short(one)}"
    return None


def _short(cell: Cell) -> str:
    text = repr(cell)
    return text if len(text) <= 60 else f"{text[:57]}..."
