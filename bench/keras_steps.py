"""What Keras' integration adds to a training batch, in the environment of the frameworks.

One model is trained by turns with and without the integration, so that both run the same compiled
code. Of each turn the median of all batches counts, and of all turns the median difference.
"""

import importlib
import json
import logging
import os
import statistics
import subprocess
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from bench.measure import Row, counted

ROOT = Path(__file__).parents[1]
ROUNDS = {"torch": 15, "jax": 41}
BATCHES = 500
BACKENDS = ("torch", "jax")


def rows() -> list[Row]:
    return [_row(backend) for backend in BACKENDS]


def _row(backend: str) -> Row:
    python = os.environ.get("OUTLAST_BENCH_FRAMEWORKS") or str(ROOT / ".frameworks/bin/python")
    command = [python, "-m", "bench.keras_steps"]
    environ = os.environ | {"KERAS_BACKEND": backend}
    done = subprocess.run(
        command, cwd=ROOT, env=environ, check=True, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    pairs = zip(found["plain"], found["durable"], strict=True)
    low, middle, high = statistics.quantiles([durable - plain for plain, durable in pairs])
    plain = statistics.median(found["plain"])
    return Row(
        f"Keras with {backend}: CPU time added to a batch",
        f"{middle * 1e6:.1f} µs (quartiles {low * 1e6:.1f} and {high * 1e6:.1f})",
        f"plain batch {plain * 1e6:.0f} µs",
        "≤ 20 µs",
    )


class Trained:
    """A tiny model that is trained for one epoch at a time."""

    def __init__(self) -> None:
        keras = importlib.import_module("keras")
        numpy = importlib.import_module("numpy")
        if keras.config.backend() == "torch":
            # More would wait for each other.
            importlib.import_module("torch").set_num_threads(1)
        begun: list[float] = []
        self._begun = begun

        class Clock(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
            def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
                begun.append(time.thread_time())

        self._clock = Clock
        self._model: Any = keras.Sequential([keras.layers.Dense(1)])
        self._model.compile(optimizer="sgd", loss="mse")
        self._x = numpy.zeros((BATCHES, 4), "float32")

    def seconds_per_batch(self, *, is_durable: bool) -> float:
        """The median CPU time of this thread from the start of a batch to that of the next."""
        from outlast.integrations.keras import durable

        self._begun.clear()
        with tempfile.TemporaryDirectory() as folder:
            if is_durable:
                durable(self._model, folder, every_seconds=3600.0)
            labels = self._x[:, :1]
            self._model.fit(self._x, labels, batch_size=1, verbose=0, callbacks=[self._clock()])
        pairs = zip(self._begun, self._begun[1:], strict=False)
        return float(statistics.median(after - before for before, after in pairs))


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    trained = Trained()
    found: dict[str, list[float]] = {"plain": [], "durable": []}
    for number in counted(1 + ROUNDS[os.environ["KERAS_BACKEND"]]):
        for name, seconds in found.items():
            taken = trained.seconds_per_batch(is_durable=name == "durable")
            # The first round compiles.
            if number:
                seconds.append(taken)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
