"""A run whose loop belongs to a framework."""

from pathlib import Path

import numpy as np
import pytest

import outlast
from outlast.run.driven import DrivenRun


def test_a_driven_run_resumes_after_the_step_at_which_it_was_interrupted(tmp_path: Path) -> None:
    state = {"weights": np.zeros(3)}
    with pytest.raises(outlast.Interrupted), DrivenRun(tmp_path, state) as run:
        assert run.begin(5)
        for step in range(5):
            state["weights"] += 1
            if step == 2:
                run.guard.interrupt("test")
                assert run.guard.wait(60)
            run.advance()

    again = {"weights": np.zeros(3)}
    with DrivenRun(tmp_path, again) as run:
        assert run.begin(5)
        assert run.step == 3
        assert again["weights"].tolist() == [3, 3, 3]
        while run.step < 5:
            again["weights"] += 1
            run.advance(may_exit=run.step < 4)

    with DrivenRun(tmp_path, again) as run:
        assert not run.begin(5)
        assert run.begin(6)


def test_a_state_between_two_reports_is_not_saved(tmp_path: Path) -> None:
    state = {"weights": np.zeros(3)}
    with pytest.raises(SystemExit), DrivenRun(tmp_path, state) as run:
        run.begin()
        state["weights"] += 1
        run.advance()
        state["weights"] += 0.5
        run.guard.interrupt("test")
        raise SystemExit(0)

    again = {"weights": np.zeros(3)}
    with DrivenRun(tmp_path, again) as run:
        assert again["weights"].tolist() in ([0, 0, 0], [1, 1, 1])


def test_the_last_step_of_a_driven_run_ends_it_in_spite_of_a_notice(tmp_path: Path) -> None:
    state = {"weights": np.zeros(3)}
    with DrivenRun(tmp_path, state) as run:
        run.begin(1)
        run.guard.interrupt("test")
        assert run.guard.wait(60)
        run.advance(may_exit=False)

    with DrivenRun(tmp_path, state) as run:
        assert not run.begin(1)
