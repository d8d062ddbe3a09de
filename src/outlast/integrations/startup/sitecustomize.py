"""Python imports this at start-up, because `outlast exec --durable` put its folder on PYTHONPATH.

Gives way to a `sitecustomize` of the environment, which Python would have imported instead.
"""

import importlib
import os
import sys


def _import_shadowed() -> None:
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - as light as possible
    sys.path[:] = [path for path in sys.path if path != here]
    mine = sys.modules.pop("sitecustomize")
    try:
        importlib.import_module("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", mine)


def _watch_imports() -> None:
    try:
        from outlast.integrations.unmodified import watch_imports
    except ModuleNotFoundError:
        # Another environment, such as that of a tool: nothing is made durable in it.
        return
    watch_imports()


_watch_imports()
_import_shadowed()
