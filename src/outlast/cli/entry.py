"""Where the command `outlast` starts.

`exec` is the first process of a container and must be there at once: it is dispatched before
anything outside the standard library is imported.
"""

import sys


def main() -> int:
    arguments = sys.argv[1:]
    try:
        if arguments[:1] == ["exec"]:
            from outlast.cli.exec import main as exec_main

            return exec_main(arguments[1:])
        from outlast.cli.app import run

        return run(arguments)
    except KeyboardInterrupt:
        return 130
