"""`python -m bench.topic NAME FILE`: measure one topic and write its section to a file.

Started by `python -m bench`, with a folder for everything that it writes. If that process is
killed, standard input ends; this process then exits and removes the folder.
"""

import logging
import os
import shutil
import signal
import sys
import threading
from importlib import import_module
from pathlib import Path

from bench.results import TOPICS


def main(topic: str, file: Path, *, quick: bool) -> None:
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    # A shell starts background jobs with SIGINT ignored, and guards respect that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    try:
        options = TOPICS[topic].quick if quick else {}
        section = import_module(f"bench.{topic}").report(**options)
    except BaseException:
        shutil.rmtree(file.parent, ignore_errors=True)
        raise
    file.write_text(section)


def _exit_with_parent() -> None:
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), quick="--quick" in sys.argv[3:])
