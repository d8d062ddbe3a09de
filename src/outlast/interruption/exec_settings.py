"""The settings that a guard shares with `outlast exec`. Quick to import, so that it starts at once.

The signals that count as a notice are names here: importing `signal` would take as long as half of
Python's own start.
"""

from __future__ import annotations

from outlast._base.settings import (
    Setting,
    positive_seconds,
    seconds_from_zero,
    setting,
    text_of,
    whole_number_to,
)

NOTICE_SIGNALS = ("SIGTERM", "SIGINT")
SIGNALS_VARIABLE = "OUTLAST_SIGNALS"

GRACE = setting(
    "grace_seconds",
    positive_seconds,
    15.0,
    meaning="Grace period: the time from a notice to SIGKILL.",
    hint="Set it to the number of seconds that the platform waits, for example 15.",
)
RESERVE = setting(
    "reserve_seconds",
    seconds_from_zero,
    2.0,
    meaning="Part of the grace period that is reserved for exiting. Saves use the rest.",
    hint="Set it to a number of seconds below the grace period, for example 2.",
)
EXIT_CODE: Setting[int | None] = setting(
    "exit_code",
    whole_number_to(255, "An exit code"),
    None,
    default_text="75 in a Pod, 130 after Ctrl-C, else 0",
    meaning="Exit code of an interrupted process.",
    hint="Use the code that the Job's podFailurePolicy ignores, for example 75.",
)
NOTES: Setting[str | None] = setting(
    "",
    text_of("A folder"),
    None,
    variable="OUTLAST_NOTES",
    default_text="set by `outlast exec`",
    meaning="Folder in which processes with a guard leave their exit codes for `outlast exec`. For "
    "internal use.",
    hint="Leave it unset: `outlast exec` sets it.",
)
