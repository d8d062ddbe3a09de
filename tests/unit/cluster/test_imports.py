"""Commands that do not talk to a cluster import nothing of it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cluster.kubeconfigs import write_kubeconfig

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


UNTIL_THE_FIRST_REQUEST = """
import os, sys
from outlast.cli.entry import main
from outlast.cluster.connection.link import Link
def end(link, request):
    print(request.method, request.path)
    print([name for name in sys.modules if name.startswith("outlast.cluster.watching")])
    print(sorted({"numpy", "pydantic", "rich"} & set(sys.modules)), flush=True)
    os._exit(0)
Link.send = end
sys.argv = ["outlast", "watch", "tiny", "--once", "--kubeconfig", sys.argv[1]]
main()
"""


def test_watch_asks_the_cluster_before_it_imports_the_diagnosis(tmp_path: Path) -> None:
    config = write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")
    done = subprocess.run(
        [sys.executable, "-c", UNTIL_THE_FIRST_REQUEST, str(config)], capture_output=True, text=True
    )

    assert done.stdout.splitlines() == ["GET /apis/jobset.x-k8s.io/v1alpha2", "[]", "[]"], done


def test_without_the_extra_the_error_says_what_to_install() -> None:
    program = "import sys; sys.modules['httpx2'] = None\n" + PROGRAM
    done = subprocess.run([sys.executable, "-c", program, "doctor"], capture_output=True, text=True)

    assert "error: A connection to a cluster needs packages" in done.stderr
    assert "pip install 'outlast[cluster]'" in done.stderr
    assert "Traceback" not in done.stderr
