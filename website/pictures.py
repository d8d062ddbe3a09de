"""Draw the picture of the README from a real drill: `python -m website.pictures`.

The drill runs the loop of the README in a terminal, and what it printed becomes an SVG for light
and one for dark pages, without fonts from another host.
"""

import io
import os
import pty
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI, TerminalTheme
from rich.text import Text

from website.pages import DOCS, ROOT

COLUMNS = 100
SCRIPT = re.compile(r"```python file=train.py\n(.*?)```", re.DOTALL)
COMMAND = (
    "outlast drill --evictions 4 --seed 7 --expect '{dir}/weights.npy' -- python train.py '{dir}'"
)
LIGHT = TerminalTheme(
    (255, 255, 255),
    (36, 41, 47),
    [
        (36, 41, 47),
        (207, 34, 46),
        (17, 99, 41),
        (77, 45, 0),
        (9, 105, 218),
        (130, 80, 223),
        (27, 124, 131),
        (87, 96, 106),
    ],
)


def main() -> None:
    printed = drill((ROOT / "README.md").read_text())
    for name, theme in (("light", LIGHT), ("dark", MONOKAI)):
        path = DOCS / f"pictures/drill-{name}.svg"
        path.write_text(picture(printed, theme))
        print(f"wrote {path.relative_to(ROOT)}")


def drill(readme: str) -> str:
    """What the drill of the README's script prints on a terminal."""
    script = SCRIPT.search(readme)
    assert script, "README.md has no train.py."
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "train.py").write_text(script[1])
        return in_terminal(COMMAND, Path(folder))


def in_terminal(command: str, folder: Path) -> str:
    """The standard output of a command, with colors. What it says meanwhile is left out."""
    ours, theirs = pty.openpty()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    process = subprocess.Popen(
        ["bash", "-c", command],
        cwd=folder,
        env={**environ, "COLORTERM": "truecolor"},
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    parts = []
    while True:
        try:
            parts.append(os.read(ours, 65536))
        except OSError:  # The other side is closed.
            break
    os.close(ours)
    assert process.wait() == 0, b"".join(parts).decode()
    return b"".join(parts).decode().replace("\r\n", "\n")


def picture(printed: str, theme: TerminalTheme) -> str:
    """The text as an SVG, with the command above it."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ {COMMAND}", style="bold"))
    text = Text.from_ansi(printed.rstrip())
    text.highlight_regex(r"(?m)^(PASS|survived.*)", "bold green")
    console.print(text)
    svg = console.export_svg(title="outlast drill", theme=theme, unique_id="drill")
    return re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)


if __name__ == "__main__":
    main()
