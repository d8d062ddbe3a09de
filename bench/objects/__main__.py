"""`python -m bench.objects`: measure object stores alone and print the tables."""

import argparse
from pathlib import Path

from bench.measure import machine
from bench.objects.measures import NETS, SYSTEMS, Net, report


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.objects", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size-mib", type=int, default=1024)
    parser.add_argument("--systems", help="parts of the names of the systems, by commas")
    parser.add_argument("--nets", help="LATENCY_MS[:MBIT_PER_SECOND], by commas")
    parser.add_argument("--python", help="the interpreter for which the peers are installed")
    parser.add_argument("--raw", type=Path, help="write every single value here, as JSON")
    args = parser.parse_args()
    systems, nets = SYSTEMS, NETS
    if args.systems:
        wanted = args.systems.lower().split(",")
        systems = tuple(name for name in systems if any(part in name.lower() for part in wanted))
    if args.nets:
        nets = tuple(Net(*map(float, text.split(":"))) for text in args.nets.split(","))
    print(f"{machine()}\n")
    print(
        report(
            args.rounds,
            args.size_mib,
            nets=nets,
            systems=systems,
            python=args.python,
            raw=args.raw,
        )
    )


if __name__ == "__main__":
    main()
