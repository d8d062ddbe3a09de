from datetime import UTC, datetime
from pathlib import Path
from signal import Signals

import pytest

import outlast
from outlast.errors import SettingError
from outlast.interruption.machine import google_metadata_host
from outlast.interruption.settings import GuardSettings


def test_without_settings_there_are_sensible_defaults() -> None:
    settings = GuardSettings.read({}, environ={})

    assert settings.grace_seconds == 15.0
    assert settings.reserve_seconds == 2.0
    assert settings.signals == (Signals.SIGTERM, Signals.SIGINT)
    assert settings.exit_code is None


def test_the_keyword_beats_the_variable_which_beats_the_default() -> None:
    environ = {"OUTLAST_GRACE_SECONDS": "25", "OUTLAST_EXIT_CODE": "75"}

    settings = GuardSettings.read({"grace_seconds": 40}, environ=environ)

    assert (settings.grace_seconds, settings.exit_code) == (40.0, 75)


def test_an_empty_variable_means_unset() -> None:
    assert GuardSettings.read({}, environ={"OUTLAST_GRACE_SECONDS": " "}).grace_seconds == 15.0


@pytest.mark.parametrize(
    "given",
    ["SIGTERM,SIGUSR1", "term usr1", (Signals.SIGTERM, "USR1"), [15, 10], ["15", "SIGUSR1"]],
    ids=repr,
)
def test_signals_are_taken_by_name_or_number(given: object) -> None:
    settings = GuardSettings.read({"signals": given}, environ={})

    assert settings.signals == (Signals.SIGTERM, Signals.SIGUSR1)


@pytest.mark.parametrize(
    "text", ["2026-11-15T18:30:00Z", "2026-11-15T19:30:00+01:00", "1794767400"], ids=repr
)
def test_an_expiry_is_read_from_rfc_3339_or_unix_seconds(text: str) -> None:
    settings = GuardSettings.read({}, environ={"OUTLAST_EXPIRES_AT": text})

    assert settings.expires_at == datetime(2026, 11, 15, 18, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("variable", "text", "complaint"),
    [
        ("OUTLAST_GRACE_SECONDS", "-3", "above 0"),
        ("OUTLAST_GRACE_SECONDS", "0", "above 0"),
        ("OUTLAST_GRACE_SECONDS", "soon", "without a unit"),
        ("OUTLAST_GRACE_SECONDS", "25s", "without a unit"),
        ("OUTLAST_GRACE_SECONDS", "nan", "at most 100,000,000"),
        ("OUTLAST_GRACE_SECONDS", "inf", "at most 100,000,000"),
        ("OUTLAST_RESERVE_SECONDS", "-1", "at least 0"),
        ("OUTLAST_EXIT_CODE", "256", "from 0 to 255"),
        ("OUTLAST_EXIT_CODE", "-1", "from 0 to 255"),
        ("OUTLAST_EXIT_CODE", "ok", "from 0 to 255"),
        ("OUTLAST_SIGNALS", "SIGTERM,SIGFOO", "'SIGFOO' is not the name"),
        ("OUTLAST_SIGNALS", "99", "'99' is not the name"),
        ("OUTLAST_SIGNALS", "SIGKILL", "No process can catch SIGKILL"),
        ("OUTLAST_SIGNALS", "SIGSEGV", "cannot be a notice"),
        ("OUTLAST_EXPIRES_AT", "tomorrow", "Expected a date and time"),
        ("OUTLAST_EXPIRES_AT", "2026-11-15T18:30:00", "no time zone"),
        ("OUTLAST_EXPIRES_AT", "2026-13-45T99:00:00Z", "Expected a date and time"),
        ("OUTLAST_EXPIRES_AT", "9" * 30, "Expected a date and time"),
        ("OUTLAST_EXPIRES_AT", "9999-12-31T23:59:59-12:00", "out of range"),
        ("OUTLAST_MAX_RUN_SECONDS", "0", "above 0"),
        ("OUTLAST_NODE_NAME", "../secrets", "lowercase letters"),
        ("GCE_METADATA_HOST", "evil/path", "Expected a host"),
    ],
)
def test_a_bad_variable_is_refused_by_name_before_any_work(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str, complaint: str
) -> None:
    monkeypatch.setenv(variable, text)

    with pytest.raises(SettingError, match=complaint) as caught:
        outlast.Guard()

    assert f"variable {variable} is {text!r}" in str(caught.value)
    assert caught.value.hint is not None
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("keywords", "complaint"),
    [
        ({"grace_seconds": -3}, "keyword grace_seconds is -3"),
        ({"grace_seconds": True}, "keyword grace_seconds is True"),
        ({"grace_seconds": 10**400}, "at most 100,000,000"),
        ({"exit_code": 1.5}, "keyword exit_code is 1.5"),
        ({"signals": ["SIGFOO"]}, "keyword signals"),
        ({"signals": [None]}, "None is not the name"),
        ({"expires_at": 5}, "Expected a date and time"),
    ],
)
def test_a_bad_keyword_is_refused_by_name(keywords: dict[str, object], complaint: str) -> None:
    with pytest.raises(SettingError, match=complaint):
        GuardSettings.read(keywords, environ={})


def test_a_grace_period_shorter_than_the_reserve_names_both_and_their_sources() -> None:
    with pytest.raises(SettingError) as caught:
        GuardSettings.read({"grace_seconds": 1}, environ={"OUTLAST_RESERVE_SECONDS": "3"})

    assert "1 s (keyword grace_seconds)" in str(caught.value)
    assert "3 s (variable OUTLAST_RESERVE_SECONDS)" in str(caught.value)


@pytest.mark.parametrize(
    ("product", "host"),
    [
        ("Google Compute Engine\n", "169.254.169.254"),
        ("Google\n", "169.254.169.254"),
        ("KVM\n", None),
    ],
)
def test_only_a_machine_of_google_has_a_metadata_server(
    tmp_path: Path, product: str, host: str | None
) -> None:
    firmware = tmp_path / "product_name"
    firmware.write_text(product)

    assert google_metadata_host(str(firmware)) == host
    assert google_metadata_host(str(firmware) + ".missing") is None
