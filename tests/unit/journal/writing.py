"""A program that writes a journal until it is killed, and says what is durable.

Run as `python -m tests.unit.journal.writing FOLDER COMMIT ATTEMPT WRITER`; it starts at the first
line on its input.
"""

import itertools
import sys

from outlast.journal.events import Metrics, Scalar, utc_now
from outlast.journal.writer import JournalWriter
from outlast.storage.local.store import Commit, LocalStore


def main(folder: str, commit: str, attempt: str, writer: str) -> None:
    journal = JournalWriter(
        LocalStore(folder, commit=Commit[commit]), int(attempt), flush_seconds=0.001
    )
    print("ready", flush=True)
    sys.stdin.readline()
    for number in itertools.count(1):
        values: dict[str, Scalar] = {
            "writer": writer,
            "number": number,
            "filling": "x" * (number % 1000),
        }
        journal.record(Metrics(at=utc_now(), step=number, values=values))
        # The background thread writes too, so that a kill meets both.
        if number % 3 == 0 and journal.flush():
            print(number, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
