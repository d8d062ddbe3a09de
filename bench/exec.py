"""What `outlast exec` adds to the start of a command, beside its peers where they are installed.

The script that the installer writes for `outlast` counts too. pip before 25.2, such as the one that
comes with Python 3.11, imports `re` in it, so the script of newer ones is measured as well; see
docs/decisions/0006-console-script.md.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from bench.measure import Row, interleaved, seconds_of, table

PEERS = {"tini": ["tini", "-s", "--", "true"], "dumb-init": ["dumb-init", "true"]}
BARE = "python -c pass"
EXEC, VERSION = "outlast exec true", "outlast --version"
BARS = {EXEC: "≤ 1.5 x", VERSION: "≤ 3 x"}
_ROUNDS = 25
_WRAPPER = """\
#!{python}
import sys
from outlast.cli.entry import program
if __name__ == "__main__":
    sys.argv[0] = sys.argv[0].removesuffix(".exe")
    sys.exit(program())
"""


def report() -> str:
    load = os.getloadavg()[0]
    return f"{_ROUNDS} rounds, load of the machine at the start {load:.1f}.\n\n" + table(
        "Starting a command", rows()
    )


def rows() -> list[Row]:
    outlast = str(Path(sys.executable).with_name("outlast"))
    with tempfile.TemporaryDirectory() as folder:
        wrapper = Path(folder, "outlast")
        wrapper.write_text(_WRAPPER.format(python=sys.executable))
        wrapper.chmod(0o755)
        cases = {
            "true": seconds_of(["true"]),
            BARE: seconds_of([sys.executable, "-c", "pass"]),
            "python -c 'import re'": seconds_of([sys.executable, "-c", "import re"]),
            EXEC: seconds_of([outlast, *EXEC.split()[1:]]),
            VERSION: seconds_of([outlast, "--version"]),
            "outlast completion bash": seconds_of([outlast, "completion", "bash"]),
        }
        newer = "with the script of pip 25.2 or later"
        cases |= {
            f"{command}, {newer}": seconds_of([str(wrapper), *command.split()[1:]])
            for command in BARS
        }
        cases |= {name: seconds_of(peer) for name, peer in PEERS.items() if shutil.which(peer[0])}
        # The first of each compiles modules or fills the page cache.
        interleaved(cases, rounds=1)
        medians = interleaved(cases, rounds=_ROUNDS)
    bare = medians[BARE]
    return [
        Row(
            name,
            f"{seconds * 1000:.1f} ms",
            f"{seconds / bare:.2f} of bare Python",
            BARS.get(name.partition(",")[0], ""),
        )
        for name, seconds in medians.items()
    ]
