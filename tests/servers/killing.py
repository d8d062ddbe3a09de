"""Run a command against a cluster, and kill it at one of its requests that change something."""

import os
import signal
import subprocess
import sys
from pathlib import Path

# Ends the process right before or after the n-th request that changes something.
_KILLED = """
import os, signal, sys
from outlast.cluster.connection.link import Link

number, when = int(sys.argv.pop(1)), sys.argv.pop(1)
send, count = Link.send, 0

def counting(link, request):
    global count
    writes = request.method in ("PATCH", "DELETE") and "dryRun" not in request.params
    count += writes
    if writes and count == number and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    response = send(link, request)
    if writes and count == number:
        os.kill(os.getpid(), signal.SIGKILL)
    return response

Link.send = counting
from outlast.cli.entry import main
main()
"""


def run_killed(kubeconfig: Path, number: int, when: str, *words: str | Path) -> None:
    """Run `outlast`, killed `before` or `after` its n-th request that changes something."""
    command = [sys.executable, "-c", _KILLED, str(number), when, *map(str, words)]
    environ = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    killed = subprocess.run(command, env=environ, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, (killed.stdout, killed.stderr)
