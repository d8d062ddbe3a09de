from datetime import UTC, datetime, timedelta

import pytest

from outlast.errors import SettingError
from outlast.interruption.expiry import (
    BOOT_MARGIN_SECONDS,
    BootExpiry,
    explicit_expiry,
    is_credible,
)
from outlast.interruption.machine import seconds_since_boot
from outlast.interruption.settings import GuardSettings


def settings_expiring_in(seconds: float) -> GuardSettings:
    expires_at = datetime.now(UTC) + timedelta(seconds=seconds)
    return GuardSettings.read({"expires_at": expires_at}, environ={})


def test_an_explicit_expiry_says_what_is_left() -> None:
    clock = explicit_expiry(settings_expiring_in(100))

    assert clock is not None
    assert clock.seconds_left() == pytest.approx(100, abs=1)


def test_an_expiry_that_has_just_passed_is_believed() -> None:
    assert explicit_expiry(settings_expiring_in(-5)) is not None


def test_an_expiry_long_past_is_refused_since_the_machine_still_runs() -> None:
    with pytest.raises(SettingError, match=r"OUTLAST_EXPIRES_AT.*passed 60\.0 min ago") as caught:
        explicit_expiry(settings_expiring_in(-3600))

    assert caught.value.hint == "Set it again at each start, or leave it unset."


def test_a_maximum_run_duration_counts_from_boot_less_a_margin() -> None:
    clock = BootExpiry(max_run_seconds=seconds_since_boot() + 100)

    assert clock.seconds_left() == pytest.approx(100 - BOOT_MARGIN_SECONDS, abs=1)


def test_a_machine_up_for_longer_than_the_lease_has_another_lease() -> None:
    assert is_credible(BootExpiry(max_run_seconds=seconds_since_boot() + 1))
    assert not is_credible(BootExpiry(max_run_seconds=max(1.0, seconds_since_boot() - 3600)))
