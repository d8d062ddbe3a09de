"""The entry point of the `outlast` command.

`exec` is the first process of a container and must start quickly, so it is dispatched before
anything outside the standard library is imported.
"""

import sys

from outlast.cli.messages import print_crash


def main() -> int:
    sys.excepthook = print_crash
    arguments = sys.argv[1:]
    try:
        if arguments[:1] == ["exec"]:
            from outlast.cli.run.exec import main as exec_main

            return exec_main(arguments[1:])
        import threading

        from outlast.cli.app import run

        threading.excepthook = lambda crash: print_crash(
            crash.exc_type, crash.exc_value or crash.exc_type(), crash.exc_traceback
        )
        return run(arguments)
    except KeyboardInterrupt:
        return 130
