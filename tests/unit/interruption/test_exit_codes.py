import pytest

from outlast.interruption.exit_codes import interrupted_code


@pytest.mark.parametrize(
    ("explicit", "by_keyboard", "in_pod", "cut_off", "code"),
    [
        pytest.param(None, False, False, False, 0, id="by hand, after a clean stop"),
        pytest.param(None, False, True, False, 75, id="in a Pod, where a Job takes 0 for done"),
        pytest.param(None, False, False, True, 75, id="by hand, cut off"),
        pytest.param(None, True, False, False, 130, id="Ctrl-C"),
        pytest.param(None, True, True, True, 130, id="Ctrl-C in a Pod"),
        pytest.param(42, False, True, False, 42, id="explicit, in a Pod"),
        pytest.param(42, True, False, False, 42, id="explicit, Ctrl-C"),
        pytest.param(0, False, True, True, 0, id="explicit zero"),
    ],
)
def test_the_code_tells_the_truth(
    explicit: int | None, by_keyboard: bool, in_pod: bool, cut_off: bool, code: int
) -> None:
    assert code == interrupted_code(
        explicit=explicit, by_keyboard=by_keyboard, in_pod=in_pod, cut_off=cut_off
    )
