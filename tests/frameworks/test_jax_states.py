"""States of JAX's frameworks: interrupted and resumed, they have the bits of an undisturbed run."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outlast
from outlast.checkpoint.errors import StateMismatch
from tests.frameworks.jax_trainings import (
    ADAM,
    STEPS,
    TRAININGS,
    State,
    Training,
    bits_of,
    eqx_state,
    grain_state,
    hashes_of,
    linen_state,
    nnx,
    nnx_state,
    optax,
)

ROOT = Path(__file__).parent.parent.parent
INTERRUPTED = 75


class Crash(Exception):
    """Stands for whatever ends a process."""


def trained(training: Training, url: Path, *, crash_at: int | None = None) -> State:
    state = training.fresh()
    with outlast.Run(url, state, every_steps=1) as run:
        for step in run.steps(STEPS):
            training.step(state)
            if step == crash_at:
                raise Crash
    return state


@pytest.mark.parametrize("training", TRAININGS, ids=lambda training: training.name)
def test_an_interrupted_training_ends_with_the_bits_of_an_undisturbed_one(
    training: Training, tmp_path: Path
) -> None:
    undisturbed = training.fresh()
    for _ in range(STEPS):
        training.step(undisturbed)

    for crash_at in (1, 3):
        with pytest.raises(Crash):
            trained(training, tmp_path, crash_at=crash_at)
    state = trained(training, tmp_path)

    expected = bits_of(undisturbed)
    assert len(expected) >= 3
    assert bits_of(state) == expected


def test_all_of_them_survive_a_notice_and_a_silent_kill_in_processes_of_their_own(
    tmp_path: Path,
) -> None:
    undisturbed = {training.name: training.fresh() for training in TRAININGS}
    for training in TRAININGS:
        for _ in range(STEPS):
            training.step(undisturbed[training.name])
    environ = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        "OUTLAST_EXIT_CODE": str(INTERRUPTED),
        # The second process need not compile what the first has.
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    command = [sys.executable, "-m", "tests.frameworks.jax_trainings", str(tmp_path)]

    for step, number, code in ((2, signal.SIGTERM, INTERRUPTED), (4, signal.SIGKILL, -9)):
        with subprocess.Popen(
            [*command, str(step)], env=environ, cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout is not None and process.stdout.readline() == "waiting\n"
                process.send_signal(number)
                assert process.wait() == code
            finally:
                process.kill()
    last = subprocess.run(command, check=True, env=environ, cwd=ROOT, stdout=subprocess.PIPE)

    assert json.loads(last.stdout) == hashes_of(undisturbed)


def test_what_other_objects_refer_to_stays_the_same_object(tmp_path: Path) -> None:
    nnx_training = next(one for one in TRAININGS if one.name == "nnx")
    with pytest.raises(Crash):
        trained(nnx_training, tmp_path, crash_at=2)
    state = nnx_state()
    net, kernel = state["net"], state["net"].first.kernel
    before = np.asarray(kernel[...]).copy()

    with outlast.Run(tmp_path, state):
        pass

    assert state["net"] is net and net.first.kernel is kernel and net.tied is net.first.bias
    assert not np.array_equal(before, kernel[...])
    # As it was at the last save, not as the fresh one is.
    assert net.calls == 2 and net.dropout.deterministic is False
    assert isinstance(state["optimizer"].opt_state[0].mu, nnx.State)


def linear(seed: int) -> Any:
    return nnx.Linear(2, 3, rngs=nnx.Rngs(seed))


def with_optimizer(net: Any, other: Any) -> State:
    optimizer = nnx.ModelAndOptimizer(other, ADAM, wrt=nnx.Param)
    return {"net": net, "optimizer": optimizer}


def test_a_model_that_two_objects_shared_is_one_again(tmp_path: Path) -> None:
    net = linear(0)
    saved(tmp_path, with_optimizer(net, net))
    state = with_optimizer(linear(1), linear(2))
    fresh = state["net"]

    saved(tmp_path, state)

    assert state["net"] is state["optimizer"].model is fresh
    assert np.array_equal(fresh.kernel[...], net.kernel[...])


def test_two_models_are_not_restored_into_one(tmp_path: Path) -> None:
    saved(tmp_path, {"a": linear(0), "b": linear(1)})
    net = linear(2)

    with pytest.raises(StateMismatch, match=r"state\.b\.kernel: it was saved separately from"):
        saved(tmp_path, {"a": net, "b": net})


def saved(url: Path, state: State) -> None:
    """Resume, and save once more."""
    with outlast.Run(url, state) as run:
        run.save()


SGD = optax.sgd(1e-2, momentum=0.9)
SGD_DECAYED = optax.chain(optax.trace(0.9), optax.add_decayed_weights(1e-4), optax.scale(-1e-2))


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        (
            "linen",
            lambda: linen_state(tx=SGD_DECAYED),
            r"state\.train\.opt_state\[0\]: .*ScaleByAdam",
        ),
        ("linen", lambda: linen_state(tx=ADAM), r"state\.train\.opt_state: 3 items"),
        (
            "linen",
            lambda: linen_state(width=9),
            r"state\.train\.params\.Dense_0\.kernel: .*\[4, 8\]",
        ),
        ("linen", lambda: linen_state(impl="rbg"), r"state\.key: a random key of threefry2x32"),
        (
            "nnx",
            lambda: nnx_state(tx=SGD_DECAYED),
            r"state\.optimizer\.opt_state\[0\]: .*ScaleByAdamState",
        ),
        ("nnx", lambda: nnx_state(width=9), r"state\.net\.first\.kernel: .*\[4, 8\]"),
        ("nnx", lambda: nnx_state(impl="rbg"), r"state\.net\.dropout\.rngs\.key: a random key of"),
        ("equinox", lambda: eqx_state(tx=SGD), r"state\.optimizer\[0\]: .*ScaleByAdamState"),
        ("equinox", lambda: eqx_state(width=9), r"state\.net\.mlp: its static values were .*8, 2"),
        ("equinox", lambda: eqx_state(impl="rbg"), r"state\.key: a random key of threefry2x32"),
        ("grain", lambda: grain_state(seed=2), r"state\.loader\.sampler: .*seed=1.* seed=2"),
    ],
)
def test_another_state_is_refused_by_its_path(
    name: str, wrong: Any, message: str, tmp_path: Path
) -> None:
    training = next(one for one in TRAININGS if one.name == name)
    with pytest.raises(Crash):
        trained(training, tmp_path, crash_at=1)
    state = wrong()
    before = bits_of(wrong())

    with pytest.raises(StateMismatch, match=message), outlast.Run(tmp_path, state):
        pass

    assert bits_of(state) == before
