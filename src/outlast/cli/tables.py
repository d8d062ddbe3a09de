"""A table as plain lines, as wide as it needs to be: a figure is never cut off or wrapped."""

from collections.abc import Sequence


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1) -> None:
    """Print rows under a head. The first `words` columns are text, the others are figures."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        cells = [
            cell.ljust(width) if index < words else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
