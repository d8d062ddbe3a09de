"""The settings of programs that run as several processes."""

from outlast._base.settings import Setting, seconds_from_zero, setting

LOST = setting(
    "lost_seconds",
    seconds_from_zero,
    30.0,
    meaning="How long a rank may be silent before the other ranks exit. 0 means any time.",
    hint="Set it to a number of seconds, for example 30, or to 0.",
)

JOIN = setting(
    "join_seconds",
    seconds_from_zero,
    600.0,
    meaning="How long ranks wait for each other to open the run before they exit. 0 means any "
    "time.",
    hint="Set it to a number of seconds, for example 600, or to 0.",
)

RANKS_SETTINGS: tuple[Setting[object], ...] = (LOST, JOIN)
