"""Rehearse evictions on this machine: run a command as a Spot cluster would, and judge it.

The package can be called: `outlast.drill(["python", "train.py"])` is its function `drill`.
"""

import sys
from inspect import signature
from types import ModuleType

from outlast.drill.errors import DrillError
from outlast.drill.events import DrillEvent, Listener
from outlast.drill.rehearsal import drill
from outlast.drill.report import Report
from outlast.drill.verdicts import NotJudged, Verdict

__all__ = ["DrillError", "DrillEvent", "Listener", "NotJudged", "Report", "Verdict", "drill"]


class _CallableModule(ModuleType):
    # A module's attribute hides the function of the same name as soon as the package is imported,
    # so that the package itself has to answer to `outlast.drill(...)`.
    __call__ = staticmethod(drill)


sys.modules[__name__].__class__ = _CallableModule
__signature__ = signature(drill)
