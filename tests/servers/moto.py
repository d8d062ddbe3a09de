"""The S3 server of moto, in a process of its own."""

import contextlib
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

from tests.patience import PATIENCE_SECONDS
from tests.servers.ports import free_port

BUCKET = "outlast-test"

# One request at a time: moto looks whether an object is there and then writes it, so that two
# threads of it may both win a race that S3 decides.
_PROGRAM = """
import sys, threading
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

moto = DomainDispatcherApplication(create_backend_app)
turn = threading.Lock()

def serial(environ, start_response):
    with turn:
        return list(moto(environ, start_response))

run_simple("127.0.0.1", int(sys.argv[1]), serial, threaded=True)
"""


@contextlib.contextmanager
def running_moto() -> Iterator[str]:
    """The address of a fresh server that holds `BUCKET`."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            _make_bucket(f"{url}/{BUCKET}", until=time.monotonic() + PATIENCE_SECONDS)
            yield url
        finally:
            process.kill()


def _make_bucket(url: str, *, until: float) -> None:
    while True:
        try:
            request = urllib.request.Request(url, method="PUT")
            urllib.request.urlopen(request, timeout=PATIENCE_SECONDS).close()
        except urllib.error.URLError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return
