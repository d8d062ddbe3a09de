from datetime import timedelta

import pytest

from outlast.drills.rehearsal import drill
from outlast.drills.run.options import DrillOptions
from outlast.errors import SettingError


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"command": ()}, "No command was given."),
        ({"command": ("",)}, "No command was given."),
        ({"evictions": 0}, "--evictions is 0"),
        ({"evictions": 1001}, "--evictions is 1001"),
        ({"no_notice": 1.5}, "--no-notice is 1.5. Expected a share from 0 to 1"),
        ({"hostile": -0.1}, "--hostile is -0.1"),
        ({"overlap": float("nan")}, "--overlap is nan"),
        ({"workers": 0}, "--workers is 0"),
        ({"workers": 65}, "--workers is 65"),
        ({"nodes": 0}, "--nodes is 0. Expected a number from 1"),
        ({"nodes": 1000}, "--nodes is 1000"),
        ({"ranks": 0}, "--ranks is 0. Expected a number from 1"),
        ({"nodes": 2, "workers": 2}, "--workers is 2. It cannot be combined with --nodes"),
        ({"ranks": 2, "workers": 2}, "--workers is 2. It cannot be combined with --ranks"),
        ({"nodes": 2, "overlap": 0.5}, "--overlap is 0.5. It cannot be combined with --nodes"),
        ({"grace": timedelta(0)}, "--grace is '0s'. Expected a duration above 0"),
        ({"every": timedelta(seconds=-2)}, "--every is '-2s'"),
        ({"timeout": timedelta(0)}, "--timeout is '0s'"),
        ({"replace_after": timedelta(seconds=-1)}, "--replace-after is '-1s'"),
        ({"tolerance": -1.0}, "--tolerance is -1.0"),
        ({"tolerance": float("inf")}, "--tolerance is inf"),
        ({"backoff_limit": -1}, "--backoff-limit is -1"),
        ({"every": timedelta(seconds=1), "trace": "t.csv"}, "It cannot be combined with --trace."),
        ({"keep_env": ("OUTLAST_RUN_URL",)}, "Expected OUTLAST_QUEUE_URL or OUTLAST_SINK_URL."),
        ({"skip_baseline": True, "recording": "r"}, "It cannot be combined with --skip-baseline."),
    ],
)
def test_what_cannot_work_is_refused_by_the_name_of_its_option(
    options: dict[str, object], words: str
) -> None:
    given: dict[str, object] = {"command": ("true",), **options}

    with pytest.raises(SettingError) as caught:
        DrillOptions(**given)  # type: ignore[arg-type]  # that is the point

    assert words in str(caught.value)


def test_the_grace_period_comes_from_the_option_else_from_the_setting() -> None:
    given = DrillOptions(command=("true",), grace=timedelta(seconds=2.5))

    assert given.grace_seconds({"OUTLAST_GRACE_SECONDS": "9"}) == 2.5
    assert DrillOptions(command=("true",)).grace_seconds({"OUTLAST_GRACE_SECONDS": "9"}) == 9
    assert DrillOptions(command=("true",)).grace_seconds({}) == 15


def test_the_command_gets_no_real_queue_or_sink_unless_asked_for() -> None:
    environ = {"OUTLAST_QUEUE_URL": "sqlite:///q.db", "OUTLAST_SINK_URL": "", "PATH": "/bin"}

    assert DrillOptions(command=("true",)).dropped_variables(environ) == ("OUTLAST_QUEUE_URL",)
    asked = DrillOptions(command=("true",), keep_env=("OUTLAST_QUEUE_URL",))
    assert asked.dropped_variables(environ) == ()


@pytest.mark.parametrize("keep_env", [(), ("OUTLAST_QUEUE_URL",)])
def test_a_drilled_command_sees_only_what_it_is_to_see(
    monkeypatch: pytest.MonkeyPatch, keep_env: tuple[str, ...]
) -> None:
    monkeypatch.setenv("OUTLAST_QUEUE_URL", "sqlite:////real/queue.db")
    monkeypatch.setenv("OUTLAST_SINK_URL", "sqlite:////real/sink.db")
    test = 'test "$OUTLAST_QUEUE_URL" = "$0" && test -z "$OUTLAST_SINK_URL" && exec sleep 0.5'
    expected = "sqlite:////real/queue.db" if keep_env else ""

    report = drill(["sh", "-c", test, expected], evictions=1, no_notice=1.0, keep_env=keep_env)

    assert report.baseline is not None
    assert report.baseline.attempts[-1].exit_code == 0
    [remark] = [one for one in report.remarks if "--keep-env" in one]
    assert ("OUTLAST_QUEUE_URL" in remark) is not bool(keep_env)
    assert "OUTLAST_SINK_URL" in remark
    assert "/real/" not in remark
