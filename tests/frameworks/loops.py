"""The programs of how-to pages, before and after the change that a page shows."""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

PAGE = Path(__file__).parent.parent.parent / "docs/how-to/adapt-your-loop.md"


class AdaptedLoop(NamedTuple):
    """A diff with the complete program around it."""

    name: str
    diff: tuple[str, ...]

    @property
    def before(self) -> str:
        return self._side("+")

    @property
    def after(self) -> str:
        return self._side("-")

    @property
    def changed_lines(self) -> int:
        """The lines that someone has to write or indent."""
        return max(sum(line.startswith(sign) for line in self.diff) for sign in "+-")

    def _side(self, left_out: str) -> str:
        return "".join(line[1:] + "\n" for line in self.diff if not line.startswith(left_out))


def adapted_loops(page: Path = PAGE) -> list[AdaptedLoop]:
    blocks = re.findall(r"^```diff loop=(\w+)\n(.*?)^```$", page.read_text(), re.M | re.S)
    return [AdaptedLoop(name, tuple(text.splitlines())) for name, text in blocks]


def arrays_in(path: Path) -> list[bytes]:
    """What a program has written as its result."""
    with np.load(path) as found:
        return [found[name].tobytes() for name in found]
