"""`python -m bench.ranks`: measure several ranks alone and print the tables."""

import argparse
from pathlib import Path

from bench.measure import chosen, machine
from bench.ranks.measures import PHASES, report


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.ranks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size-mib", type=int, default=256)
    parser.add_argument("--notices", type=int, default=40, help="in each round, per world size")
    parser.add_argument("--only", default=",".join(PHASES))
    parser.add_argument("--ranks", type=int, help="only the worlds of this size")
    parser.add_argument("--folder", type=Path, help="where the data goes for the time being")
    parser.add_argument("--python", help="the interpreter for which torch is installed")
    args = parser.parse_args()
    print(f"{machine()}\n")
    print(
        report(
            args.rounds,
            args.size_mib,
            chosen(parser, args.only, PHASES),
            ranks=args.ranks,
            notices=args.notices,
            folder=args.folder,
            python=args.python,
        )
    )


if __name__ == "__main__":
    main()
