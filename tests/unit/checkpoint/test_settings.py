"""The settings of a run are checked before any work, and the keyword beats the variable."""

from typing import Any

import pytest

from outlast.checkpoint.settings import OnError, SaveSettings
from outlast.errors import SettingError


def test_without_any_setting_the_interval_is_automatic_and_three_are_kept() -> None:
    settings = SaveSettings.read({}, {})

    assert settings.policy.is_automatic
    assert settings.retention.keep_last == 3
    assert settings.on_error is OnError.RAISE
    assert settings.memory_bytes_max is None


def test_every_setting_can_come_from_the_environment() -> None:
    settings = SaveSettings.read(
        {},
        {
            "OUTLAST_EVERY_SECONDS": "300",
            "OUTLAST_KEEP_LAST": "5",
            "OUTLAST_KEEP_EVERY": "1000",
            "OUTLAST_ON_ERROR": "warn",
            "OUTLAST_MEMORY_BYTES_MAX": "4000000000",
            "OUTLAST_FLOOR_SECONDS": "30",
            "OUTLAST_CEILING_SECONDS": "900",
            "OUTLAST_PRIOR_MEAN_SECONDS": "7200",
            "OUTLAST_PRIOR_UNANNOUNCED_SHARE": "0.25",
        },
    )

    assert settings.policy.every_seconds == 300
    assert (settings.policy.floor_seconds, settings.policy.ceiling_seconds) == (30, 900)
    assert settings.policy.prior_mean_seconds == 7200
    assert settings.policy.prior_unannounced_share == 0.25
    assert (settings.retention.keep_last, settings.retention.keep_every) == (5, 1000)
    assert settings.on_error is OnError.WARN
    assert settings.memory_bytes_max == 4_000_000_000


def test_a_keyword_for_the_interval_silences_every_variable_for_it() -> None:
    environ = {"OUTLAST_EVERY_SECONDS": "300", "CHECKPOINT_INTERVAL": "500"}

    policy = SaveSettings.read({"every_steps": 7}, environ).policy

    assert (policy.every_steps, policy.every_seconds) == (7, None)


def test_the_variable_of_the_common_guides_is_honoured_last() -> None:
    assert SaveSettings.read({}, {"CHECKPOINT_INTERVAL": "500"}).policy.every_steps == 500
    both = {"CHECKPOINT_INTERVAL": "500", "OUTLAST_EVERY_SECONDS": "60"}
    assert SaveSettings.read({}, both).policy.every_steps is None


@pytest.mark.parametrize(
    ("given", "environ", "words"),
    [
        ({"every_steps": 0}, {}, r"keyword every_steps is 0\. Expected a whole number of steps"),
        ({"every_steps": True}, {}, "keyword every_steps is True"),
        ({"every_seconds": -1}, {}, "keyword every_seconds is -1"),
        ({"every_steps": 1, "every_seconds": 1}, {}, "fixed twice: at 1 steps .keyword"),
        ({}, {"CHECKPOINT_INTERVAL": "often"}, "CHECKPOINT_INTERVAL is 'often'"),
        ({}, {"OUTLAST_EVERY_STEPS": "1.5"}, "OUTLAST_EVERY_STEPS is '1.5'"),
        ({}, {"OUTLAST_EVERY_STEPS": "٣"}, "OUTLAST_EVERY_STEPS is '٣'"),
        ({"keep_last": 0}, {}, "Expected a whole number of checkpoints, at least 1"),
        ({"on_error": "ignore"}, {}, "Expected 'raise' or 'warn'"),
        ({"prior_unannounced_share": 2}, {}, "Expected a share from 0 to 1"),
        ({"prior_unannounced_share": "much"}, {}, "Expected a share from 0 to 1"),
        ({"prior_weight": 0}, {}, "Expected a number above 0"),
        ({"prior_weight": 10**400}, {}, "Expected a number above 0"),
        ({}, {"OUTLAST_PRIOR_WEIGHT": "heavy"}, "Expected a number above 0"),
        ({"floor_seconds": 60, "ceiling_seconds": 30}, {}, "floor of 60 s .* above the ceiling"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_by_name(
    given: dict[str, Any], environ: dict[str, str], words: str
) -> None:
    with pytest.raises(SettingError, match=words):
        SaveSettings.read(given, environ)
