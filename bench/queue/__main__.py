"""`python -m bench.queue`: measure the queues alone and print the tables.

The peers are measured if they are installed for the interpreter that runs this.
"""

import argparse

from bench.measure import machine
from bench.queue.measures import CHUNKS, PROCESSES, SQLITE, claims, report


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.queue", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chunks", default=",".join(map(str, CHUNKS)))
    parser.add_argument("--processes", default=",".join(map(str, PROCESSES)))
    args = parser.parse_args()
    print(f"{machine()}; fsync on, payloads and results of 100 bytes\n")
    print(claims(args.rounds))
    print(
        report(
            "SQLite",
            SQLITE,
            rounds=args.rounds,
            chunks=[int(text) for text in args.chunks.split(",")],
            processes=[int(text) for text in args.processes.split(",")],
        )
    )


if __name__ == "__main__":
    main()
