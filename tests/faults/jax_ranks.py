"""A training of several processes by JAX, for tests that evict it.

    python -m tests.faults.jax_ranks FOLDER ADDRESS RANK SIZE [OPTIONS as JSON]

Prints `ready STEP` when the run is open, and `done HASH` at its end: the hash is of everything that
the training has computed. `ADDRESS` is where the processes meet. Each has two devices. Prints
`refused REASON` for an array of which no process has one box.
"""

import hashlib
import json
import os
import signal
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding

import outlast
from outlast.checkpoint.state.tree import capture

STEPS = 8

# They have no types in JAX.
P: Any = jax.sharding.PartitionSpec
from_local: Any = jax.make_array_from_process_local_data


@partial(jax.tree_util.register_dataclass, data_fields=["step", "params"], meta_fields=[])
@dataclass(frozen=True)
class Train:
    """As flax's TrainState: the first step turns the Python number into an array."""

    step: Any
    params: Any


def main() -> None:
    folder, address, rank, size = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    options: dict[str, Any] = json.loads(sys.argv[5]) if len(sys.argv) > 5 else {}
    if size > 1:
        jax.distributed.initialize(address, size, rank)
    print("done", train(folder / "run", rank, size, options), flush=True)


def train(url: Path, rank: int, size: int, options: dict[str, Any]) -> str:
    devices: Any = np.array(jax.devices()).reshape(size, -1)
    mesh = Mesh(devices, ("data", "model"))
    if size > 1:
        refuse_crossed(devices)
    everywhere = NamedSharding(mesh, P())

    @partial(jax.jit, out_shardings=everywhere)
    def gathered(thing: Any) -> Any:
        return thing

    @jax.jit
    def update(train: Train, key: Any, x: Any) -> tuple[Train, Any, Any]:
        key, noise = jax.random.split(key)
        noisy = x + 0.1 * jax.random.normal(noise, x.shape)
        value, gradient = jax.value_and_grad(loss)(train.params, noisy)
        params = jax.tree.map(lambda p, g: p - 0.05 * g, train.params, gradient)
        return Train(train.step + 1, params), key, value

    generator = np.random.default_rng(rank)
    state: dict[str, Any] = {
        "train": Train(0, new_params(mesh)),
        "key": jax.random.key(7),
        "best": {},
        "data": generator,
        "losses": [],
    }
    with outlast.Run(url, state, exit_code=75, every_steps=2, **options.get("run", {})) as run:
        print("ready", run.step, flush=True)
        for step in run.steps(STEPS):
            rows = generator.normal(size=(4, 6)).astype(np.float32)
            x = from_local(NamedSharding(mesh, P("data")), rows)
            state["train"], state["key"], value = update(state["train"], state["key"], x)
            state["best"]["rows"] = state["train"].params["rows"]
            state["losses"].append(float(value.addressable_data(0)))
            if [rank, step] == options.get("signal_at"):
                os.kill(os.getpid(), signal.Signals[options.get("signal", "SIGTERM")])
    arrays = jax.tree.leaves(gathered([state["train"], state["best"]]))
    found = [np.asarray(array.addressable_data(0)).tolist() for array in arrays]
    key = jax.random.key_data(state["key"]).addressable_data(0).tolist()
    text = json.dumps([found, key, state["losses"], generator.random()])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def refuse_crossed(devices: Any) -> None:
    """The devices of the processes take turns in the mesh."""
    sharding = NamedSharding(Mesh(devices.T.reshape(-1), "x"), P("x"))
    crossed = jax.make_array_from_callback((8,), sharding, np.arange(8.0).__getitem__)
    try:
        capture({"crossed": crossed})
    except outlast.OutlastError as error:
        print("refused", error, flush=True)


def new_params(mesh: Any) -> dict[str, Any]:
    """One array for each manner of being divided among processes and their devices."""
    specs = {
        "rows": ((6, 8), P("data")),
        "tiles": ((8, 8), P("model", "data")),
        "columns": ((8, 4), P(None, "model")),
        "both": ((4, 2), P(("data", "model"))),
        "bias": ((2,), P()),
        "scale": ((), P()),
    }
    chance = np.random.default_rng(0)
    params = {}
    for name, (shape, spec) in specs.items():
        numbers = np.asarray(chance.normal(size=shape), np.float32)
        sharding = NamedSharding(mesh, spec)
        params[name] = jax.make_array_from_callback(shape, sharding, numbers.__getitem__)
    return params


def loss(params: dict[str, Any], x: Any) -> Any:
    hidden = jnp.tanh(x @ params["rows"]) @ params["tiles"]
    hidden = jnp.tanh(hidden) @ params["columns"] @ params["both"] + params["bias"]
    return jnp.mean((params["scale"] * hidden - 1) ** 2)


if __name__ == "__main__":
    main()
