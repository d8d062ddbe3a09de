from datetime import timedelta

import pytest

from outlast.drill.plan import Plan
from outlast.errors import SettingError


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"command": ()}, "There is no command to drill."),
        ({"command": ("",)}, "There is no command to drill."),
        ({"evictions": 0}, "--evictions is 0"),
        ({"evictions": 1001}, "--evictions is 1001"),
        ({"no_notice": 1.5}, "--no-notice is 1.5. A share from 0 to 1"),
        ({"hostile": -0.1}, "--hostile is -0.1"),
        ({"duplicates": float("nan")}, "--duplicates is nan"),
        ({"workers": 0}, "--workers is 0"),
        ({"workers": 65}, "--workers is 65"),
        ({"grace": timedelta(0)}, "--grace is '0s'. A duration above 0"),
        ({"every": timedelta(seconds=-2)}, "--every is '-2s'"),
        ({"timeout": timedelta(0)}, "--timeout is '0s'"),
        ({"replace_after": timedelta(seconds=-1)}, "--replace-after is '-1s'"),
        ({"tolerance": -1.0}, "--tolerance is -1.0"),
        ({"tolerance": float("inf")}, "--tolerance is inf"),
        ({"backoff_limit": -1}, "--backoff-limit is -1"),
        ({"every": timedelta(seconds=1), "trace": "t.csv"}, "A trace sets the times already."),
        ({"baseline": False, "recording": "r"}, "It is for a baseline."),
    ],
)
def test_what_cannot_work_is_refused_by_the_name_of_its_option(
    options: dict[str, object], words: str
) -> None:
    given: dict[str, object] = {"command": ("true",), **options}

    with pytest.raises(SettingError) as caught:
        Plan(**given)  # type: ignore[arg-type]  # that is the point

    assert words in str(caught.value)


def test_the_grace_period_comes_from_the_option_else_from_the_setting() -> None:
    given = Plan(command=("true",), grace=timedelta(seconds=2.5))

    assert given.grace_seconds({"OUTLAST_GRACE_SECONDS": "9"}) == 2.5
    assert Plan(command=("true",)).grace_seconds({"OUTLAST_GRACE_SECONDS": "9"}) == 9
    assert Plan(command=("true",)).grace_seconds({}) == 15
