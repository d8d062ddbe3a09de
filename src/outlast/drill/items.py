"""Which items a disturbed leg lost or stored twice, told by the rows of both legs. Pure.

An item is known by its key: a column whose values are all different in the baseline, where nothing
was disturbed and so every item is there once. A key of the baseline that is missing is a lost item;
one that comes more often than in the baseline was stored more than once.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from outlast.drill.errors import DrillError
from outlast.drill.rows import Cell, Table

_EXAMPLES = 3
_SHARED_MIN = 0.5
_USUAL = ("key", "item_key", "item", "item_id", "task", "task_id", "id", "name")


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemDifference:
    """`lost` and `doubled` count items; `key` names the columns by which they are known.

    `changed` is the first difference between rows of one key, or a key only the disturbed leg has.
    """

    key: tuple[str, ...]
    items: int
    lost: int
    doubled: int
    lost_examples: tuple[str, ...] = ()
    doubled_examples: tuple[str, ...] = ()
    changed: str | None = None


def compare_items(
    calm: Table,
    disturbed: Table,
    *,
    key: str | None = None,
    same: Callable[[Cell, Cell], bool] = lambda one, other: one == other,
) -> ItemDifference:
    """What became of the items of the undisturbed run. `same` compares two cells."""
    columns = _key_columns(calm, disturbed, key)
    before, after = _keys(calm, columns), _keys(disturbed, columns)
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
        changed=_first_change(calm, disturbed, columns, same),
    )


def check_key(key: str, tables: Sequence[Table]) -> None:
    """Raise `DrillError` if none of the tables has the column, as after a slip of the pen."""
    columns = dict.fromkeys(name for table in tables for name in table.columns)
    if columns and key not in columns:
        raise DrillError(
            f"No expected file has a column {key!r}, which --key names.",
            hint=f"There are: {', '.join(columns)}",
        )


def _key_columns(calm: Table, disturbed: Table, key: str | None) -> tuple[str, ...]:
    shared = [name for name in calm.columns if name in disturbed.columns or not disturbed.rows]
    if key is not None and key in shared:
        return (key,)
    fit = [name for name in shared if not _is_fractional(calm, name)]
    named = [name for name in _USUAL if name in fit]
    ordered = list(dict.fromkeys([*named, *fit]))
    # What the storage counts by itself goes on counting when an item comes twice.
    ordered.sort(key=lambda name: name in calm.own_numbers)
    single = [(name,) for name in ordered]
    joined = [tuple(fit[:width]) for width in range(2, min(len(fit), 4) + 1)]
    for columns in [*single, *joined]:
        if _is_key(calm, disturbed, columns):
            return columns
    return tuple(name for name in shared if name not in calm.own_numbers) or tuple(shared)


def _is_key(calm: Table, disturbed: Table, columns: tuple[str, ...]) -> bool:
    """Whether it tells the items of the baseline apart, and both legs mean the same by it."""
    before = _keys(calm, columns)
    known = set(before)
    if len(known) < len(before):
        return False
    after = set(_keys(disturbed, columns))
    return not after or len(after & known) >= _SHARED_MIN * len(after)


def _is_fractional(table: Table, column: str) -> bool:
    """Fractions are results, not names."""
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
    calm: Table,
    disturbed: Table,
    columns: Sequence[str],
    same: Callable[[Cell, Cell], bool],
) -> str | None:
    if not disturbed.rows:
        return None
    rest = [name for name in calm.columns if name not in columns and name not in calm.own_numbers]
    if missing := [name for name in rest if name not in disturbed.columns]:
        return f"the column {missing[0]!r} is missing"
    before: dict[tuple[Cell, ...], dict[tuple[Cell, ...], None]] = {}
    for key, values in zip(_keys(calm, columns), _keys(calm, rest), strict=True):
        before.setdefault(key, {})[values] = None
    for key, values in zip(_keys(disturbed, columns), _keys(disturbed, rest), strict=True):
        shown = " ".join(str(cell)[:60] for cell in key)
        if key not in before:
            return f"{shown!r} is not in the undisturbed result"
        # Equal rows first, at one look: a key that is not unique may have thousands.
        if values in before[key] or any(all(map(same, known, values)) for known in before[key]):
            continue
        for name, one, other in zip(rest, next(iter(before[key])), values, strict=True):
            if not same(one, other):
                return f"{name!r} of {shown!r} is {_short(other)}, not {_short(one)}"
    return None


def _short(cell: Cell) -> str:
    text = repr(cell)
    return text if len(text) <= 60 else f"{text[:57]}..."
