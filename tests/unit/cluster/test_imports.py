"""Commands that do not talk to a cluster import nothing of it."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from outlast.cli.entry import main
sys.argv = ["outlast", *sys.argv[1:]]
try:
    main()
finally:
    names = {name.partition(".")[0] for name in sys.modules}
    print(sorted(names & {"httpx2", "httpcore2", "yaml"}), file=sys.stderr)
    print([name for name in sys.modules if name.startswith("outlast.cluster")], file=sys.stderr)
"""


@pytest.mark.parametrize("arguments", [["--help"], ["exec", "--help"], ["settings"]])
def test_other_commands_stay_light(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True
    )

    assert done.stderr.splitlines()[-2:] == ["[]", "[]"], done.stderr


def test_a_role_is_printed_without_a_connection() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "doctor", "--role", "watch"],
        capture_output=True,
        text=True,
    )

    assert "kind: ClusterRole" in done.stdout
    assert "httpx2" not in done.stderr


def test_without_the_extra_the_error_says_what_to_install() -> None:
    program = "import sys; sys.modules['httpx2'] = None\n" + PROGRAM
    done = subprocess.run([sys.executable, "-c", program, "doctor"], capture_output=True, text=True)

    assert "error: A connection to a cluster needs packages" in done.stderr
    assert "pip install 'outlast[cluster]'" in done.stderr
    assert "Traceback" not in done.stderr
