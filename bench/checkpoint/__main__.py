"""`python -m bench.checkpoint`: measure checkpoints alone and print the tables."""

import argparse
from pathlib import Path

from bench.checkpoint.measures import LIMITS, MEASURES, SYSTEMS, report
from bench.measure import chosen, machine


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.checkpoint", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size-mib", type=int, default=1024)
    parser.add_argument(
        "--only",
        default=",".join(MEASURES),
        help="a stall, b until durable, c LoRA, d restore, e memory, f training, g tick; "
        "a, b, d and e come out of the same processes",
    )
    parser.add_argument("--systems", help="parts of the names of the systems, by commas")
    parser.add_argument("--folder", type=Path, help="where the data goes for the time being")
    parser.add_argument("--python", help="the interpreter for which the peers are installed")
    parser.add_argument("--raw", type=Path, help="write every single value here, as JSON")
    args = parser.parse_args()
    systems = [*SYSTEMS, LIMITS]
    if args.systems:
        wanted = args.systems.lower().split(",")
        systems = [name for name in systems if any(part in name.lower() for part in wanted)]
    print(f"{machine()}\n")
    print(
        report(
            args.rounds,
            args.size_mib,
            chosen(parser, args.only, MEASURES),
            systems=systems,
            folder=args.folder,
            python=args.python,
            raw=args.raw,
        )
    )


if __name__ == "__main__":
    main()
