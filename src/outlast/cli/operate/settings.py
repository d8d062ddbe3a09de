"""`outlast settings`: all settings, their values in this environment, and their sources."""

from datetime import datetime

from rich.table import Column, Table

from outlast._base.settings import Setting
from outlast._redact import redact
from outlast.checkpoint.format.keys import load_hashings
from outlast.checkpoint.settings import RUN_SETTINGS, SaveSettings
from outlast.cli.printing import Format, console, say_json
from outlast.interruption.settings import (
    EXEC_SETTINGS,
    GUARD_SETTINGS,
    LEASE_SETTINGS,
    GuardSettings,
)
from outlast.journal.place import PLACE_SETTINGS
from outlast.metrics.exporter import METRICS_SETTINGS
from outlast.ranks.settings import RANKS_SETTINGS
from outlast.storage.settings import STORAGE_SETTINGS
from outlast.worker.settings import WORKER_SETTINGS

ALL_SETTINGS: tuple[Setting[object], ...] = (
    *GUARD_SETTINGS,
    *RUN_SETTINGS,
    *WORKER_SETTINGS,
    *METRICS_SETTINGS,
    *STORAGE_SETTINGS,
    *RANKS_SETTINGS,
    *LEASE_SETTINGS,
    *PLACE_SETTINGS,
    *EXEC_SETTINGS,
)


def settings(*, format: Format = Format.TEXT) -> None:
    """Show all settings, their current values and their sources.

    An invalid value is an error, as it would be in a program that uses it.

    Parameters
    ----------
    format: Format
        text for a table, json for programs.
    """
    GuardSettings.read({})
    SaveSettings.read({})
    load_hashings()
    rows = [_row(setting) for setting in ALL_SETTINGS]
    if format is Format.JSON:
        say_json({"settings": rows}, indent=2)
        return
    variable = Column("variable", no_wrap=True)
    table = Table(variable, "value", "from", "meaning", box=None, pad_edge=False)
    for row in rows:
        origin = row["source"].partition(" ")[0]
        table.add_row(row["variable"], row["value"], origin, row["meaning"])
    console().print(table)


def _row(setting: Setting[object]) -> dict[str, str]:
    reading = setting.read()
    is_default = reading.source == "default"
    return {
        "variable": setting.variable,
        "keyword": setting.keyword,
        "value": setting.default_text if is_default else redact(_text(reading.value)),
        "source": reading.source,
        "meaning": setting.meaning,
    }


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(one.name for one in value)
    if isinstance(value, datetime):
        return value.isoformat()
    return f"{value:g}" if isinstance(value, float) else str(value)
