"""`outlast settings`: every setting, its value in this environment, and its source."""

import json
from datetime import datetime

from rich.console import Console
from rich.table import Column, Table

from outlast._base.settings import Setting
from outlast.checkpoint.settings import RUN_SETTINGS, SaveSettings
from outlast.cli.format import Format
from outlast.interruption.guard_settings import GuardSettings
from outlast.interruption.settings import GUARD_SETTINGS
from outlast.metrics.settings import METRICS_SETTINGS
from outlast.worker.settings import WORKER_SETTINGS

ALL_SETTINGS: tuple[Setting[object], ...] = (
    *GUARD_SETTINGS,
    *RUN_SETTINGS,
    *WORKER_SETTINGS,
    *METRICS_SETTINGS,
)


def settings(*, format: Format = Format.TEXT) -> None:
    """Show every setting, its value here and where that came from.

    A value that cannot work is refused as the program that uses it would refuse it.

    Parameters
    ----------
    format: Format
        text for a table, json for programs.
    """
    GuardSettings.read({})
    SaveSettings.read({})
    rows = [_row(setting) for setting in ALL_SETTINGS]
    if format is Format.JSON:
        print(json.dumps({"settings": rows}, indent=2))
        return
    variable = Column("variable", no_wrap=True)
    table = Table(variable, "value", "from", "meaning", box=None, pad_edge=False)
    for row in rows:
        origin = row["source"].partition(" ")[0]
        table.add_row(row["variable"], row["value"], origin, row["meaning"])
    Console(highlight=False).print(table)


def _row(setting: Setting[object]) -> dict[str, str]:
    reading = setting.read()
    is_default = reading.source == "default"
    return {
        "variable": setting.variable,
        "keyword": setting.keyword,
        "value": setting.default_text if is_default else _text(reading.value),
        "source": reading.source,
        "meaning": setting.meaning,
    }


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(one.name for one in value)
    if isinstance(value, datetime):
        return value.isoformat()
    return f"{value:g}" if isinstance(value, float) else str(value)
