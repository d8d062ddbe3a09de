"""Show boards on a terminal with rich. Decides nothing: `outlast.cluster.watching` has the text."""

from rich.console import Group
from rich.text import Text

from outlast._base.terminal import escaped
from outlast.cluster.watching.board import Board, BoardRow, row_lines, table_lines
from outlast.cluster.watching.view import RunState

STYLES = {
    RunState.RUNNING: "bold green",
    RunState.WAITING: "bold yellow",
    RunState.STOPPED: "bold blue",
    RunState.FINISHED: "bold green",
    RunState.FAILED: "bold red",
    RunState.GONE: "bold red",
    RunState.UNKNOWN: "bold",
}
_LABELS = {"why": "bold yellow", "next": "bold cyan", "ALARM": "bold red", "as of": "bold red"}


def board_screen(board: Board, width: int) -> Group:
    """The board with colors, as wide as the terminal."""
    pad = max(2, width - len(board.name) - 2 - len(board.headline) - len(board.clock))
    title = Text.assemble(
        (_safe(board.name), "bold"),
        "  ",
        (_safe(board.headline), STYLES[board.state]),
        " " * pad,
        (board.clock, "dim"),
    )
    lines = [title, Text(_safe(board.subtitle), style="dim"), Text("")]
    for row in board.rows:
        lines += _row(row, width)
    if len(board.table) > 1:
        head, *rest = table_lines(board.table, width)
        lines += [Text(""), Text(_safe(head), style="dim"), *(Text(_safe(one)) for one in rest)]
    if board.below_table:
        lines.append(Text(board.below_table, style="dim"))
    if board.notes:
        lines.append(Text(""))
    for note in board.notes:
        lines += _row(BoardRow(label="note", text=note), width, style="dim")
    return Group(*lines)


def _row(row: BoardRow, width: int, style: str = "") -> list[Text]:
    lines = [Text(_safe(line), style=style) for line in row_lines(row, width)]
    own = len(row_lines(BoardRow(label=row.label, text=row.text), width))
    lines[0].stylize(_LABELS.get(row.label, "cyan"), 0, len(row.label))
    for line in lines[own:]:
        line.stylize("dim")
    return lines


def _safe(line: str) -> str:
    return escaped(line, keep="")
