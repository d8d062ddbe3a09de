"""Whether two pickles describe the same content. Reads their operations; nothing is unpickled.

A pickle refers back to an object that it has already written. So equal content has different bytes
if one process has the same string twice and another has two equal strings, as after a resume. Both
are read into trees of operations here. Nothing is built, imported or called.
"""

import io
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pickletools import OpcodeInfo

# The bytes of an operation, its operands from the stack, and what was added to it later.
_Node: TypeAlias = "list[bytes | _Node]"

_OPERATIONS_MAX = 500_000
_COMPARED_MAX = 2 * _OPERATIONS_MAX
_REMEMBERS = frozenset({"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"})
_RECALLS = frozenset({"GET", "BINGET", "LONG_BINGET"})
_FILLS = frozenset({"APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS", "BUILD"})
_WITHOUT_CONTENT = frozenset({"PROTO", "FRAME", "STOP"})


def same_pickles(one: bytes, other: bytes) -> bool:
    """Whether the contents are equal, regardless of which objects are shared.

    If a pickle is too large or invalid, the bytes must be equal.
    """
    if one == other:
        return True
    try:
        return _are_same(_read(one), _read(other))
    except (ValueError, LookupError):
        return False


def _read(data: bytes) -> _Node:
    """The content and the bytes after it. Raises `ValueError` or `LookupError` if invalid."""
    # Only here, because the import is slow and most files are not pickles.
    import pickletools

    file = io.BytesIO(data)
    reader = _Reader()
    for count, (operation, argument, start) in enumerate(pickletools.genops(file)):
        if count == _OPERATIONS_MAX:
            raise ValueError("It is too large.")
        reader.take_in(operation, argument, data[start : file.tell()])
    return [reader.stack.pop(), data[file.tell() :]]


class _Reader:
    """Moves nodes as loading the pickle would move objects."""

    def __init__(self) -> None:
        self.stack: list[_Node] = []
        self._below_marks: list[list[_Node]] = []
        self._memo: dict[int, _Node] = {}

    def take_in(self, operation: "OpcodeInfo", argument: Any, said: bytes) -> None:
        name = operation.name
        if name == "MARK":
            self._below_marks.append(self.stack)
            self.stack = []
        elif name in _REMEMBERS:
            self._memo[len(self._memo) if argument is None else argument] = self.stack[-1]
        elif name in _RECALLS:
            self.stack.append(self._memo[argument])
        elif name == "DUP":
            self.stack.append(self.stack[-1])
        elif name not in _WITHOUT_CONTENT:
            self._apply(operation, said)

    def _apply(self, operation: "OpcodeInfo", said: bytes) -> None:
        needed = [one.name for one in operation.stack_before]
        taken: list[_Node] = []
        if "mark" in needed:
            taken, self.stack = self.stack, self._below_marks.pop()
            needed = needed[: needed.index("mark")]
        for _ in needed:
            taken.insert(0, self.stack.pop())
        if operation.name in _FILLS:
            taken[0] += [said, *taken[1:]]
            self.stack.append(taken[0])
        elif operation.stack_after:
            self.stack.append([said, *taken])


def _are_same(one: _Node, other: _Node) -> bool:
    seen: set[tuple[int, int]] = set()
    pairs = [(one, other)]
    compared = 0
    while pairs:
        left, right = pairs.pop()
        # An object may contain itself.
        if (id(left), id(right)) in seen:
            continue
        seen.add((id(left), id(right)))
        compared += len(left)
        if len(left) != len(right) or compared > _COMPARED_MAX:
            return False
        for first, second in zip(left, right, strict=True):
            if isinstance(first, list) and isinstance(second, list):
                pairs.append((first, second))
            elif first != second:
                return False
    return True
