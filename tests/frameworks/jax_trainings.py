"""Small trainings in JAX, as users of each framework write them: a state, and what one step does.

Run as a program with a folder, it trains all of them in one state. With the number of a step it
waits there for a notice.
"""

import functools
import hashlib
import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import outlast

eqx: Any = import_module("equinox")
grain: Any = import_module("grain")
linen: Any = import_module("flax.linen")
nnx: Any = import_module("flax.nnx")
optax: Any = import_module("optax")
train_state: Any = import_module("flax.training.train_state")

# The models are small: compiling them takes longer than training them.
jax.config.update("jax_disable_most_optimizations", True)  # type: ignore[no-untyped-call]

State = dict[str, Any]
STEPS = 6
# One of each, because JAX compiles a step again for another optimizer or function.
ADAM, ADAMW = optax.adam(1e-2), optax.adamw(1e-2)
ACT = functools.partial(jax.nn.leaky_relu, negative_slope=0.1)


class Training(NamedTuple):
    """`fresh(**changes)` builds the state as a new process does, `step` trains once."""

    name: str
    fresh: Callable[..., State]
    step: Callable[[State], object]


def examples(key: Any) -> tuple[Any, Any]:
    x = jax.random.normal(key, (8, 4))
    return x, jnp.sin(x.sum(1, keepdims=True))


def mean_square(found: Any, y: Any) -> Any:
    return jnp.mean((found - y) ** 2)


# flax.linen: a TrainState with optax, a typed key, and a data set of grain


class LinenNet(linen.Module):  # type: ignore[misc]  # of a framework without types here
    width: int = 8

    @linen.compact  # type: ignore[untyped-decorator]
    def __call__(self, x: Any) -> Any:
        x = linen.Dropout(0.5, deterministic=False)(jnp.tanh(linen.Dense(self.width)(x)))
        return linen.Dense(1)(x)


def linen_state(*, width: int = 8, tx: Any = None, impl: str | None = None, seed: int = 3) -> State:
    net = LinenNet(width)
    params = net.init({"params": jax.random.key(0), "dropout": jax.random.key(1)}, jnp.ones((1, 4)))
    train = train_state.TrainState.create(
        apply_fn=net.apply, params=params["params"], tx=tx or ADAMW
    )
    data = grain.MapDataset.range(1000).shuffle(seed=seed).batch(2)
    return {"train": train, "key": jax.random.key(7, impl=impl), "data": iter(data)}


@jax.jit
def linen_update(train: Any, key: Any, number: Any) -> Any:
    key, dropout = jax.random.split(key)
    x, y = examples(jax.random.fold_in(dropout, number))

    def loss(params: Any) -> Any:
        return mean_square(train.apply_fn({"params": params}, x, rngs={"dropout": dropout}), y)

    return train.apply_gradients(grads=jax.grad(loss)(train.params)), key


def linen_step(state: State) -> None:
    number = next(state["data"]).sum()
    state["train"], state["key"] = linen_update(state["train"], state["key"], number)


# flax.nnx: objects that change in place, with dropout, batch statistics and a counter


class NnxNet(nnx.Module):  # type: ignore[misc]
    def __init__(self, width: int, rngs: Any) -> None:
        self.first = nnx.Linear(4, width, rngs=rngs)
        self.norm = nnx.BatchNorm(width, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.layers = nnx.List([nnx.Linear(width, width, rngs=rngs), jax.nn.relu])
        self.last = nnx.Linear(width, 1, rngs=rngs)
        self.tied = self.first.bias
        self.calls = 0

    def __call__(self, x: Any) -> Any:
        x = self.dropout(self.norm(self.first(x))) + self.tied
        for layer in self.layers:
            x = layer(x)
        return self.last(x)


def nnx_state(*, width: int = 8, tx: Any = None, impl: str | None = None) -> State:
    net = NnxNet(width, nnx.Rngs(0, dropout=jax.random.key(1, impl=impl)))
    optimizer = nnx.Optimizer(net, tx or ADAMW, wrt=nnx.Param)
    metrics = nnx.MultiMetric(loss=nnx.metrics.Average("loss"))
    return {"net": net, "optimizer": optimizer, "rngs": nnx.Rngs(5), "metrics": metrics}


@nnx.jit  # type: ignore[untyped-decorator]
def nnx_update(net: Any, optimizer: Any, metrics: Any, key: Any) -> None:
    x, y = examples(key)
    loss, gradient = nnx.value_and_grad(lambda net: mean_square(net(x), y))(net)
    optimizer.update(net, gradient)
    metrics.update(loss=loss)


def nnx_step(state: State) -> None:
    net = state["net"]
    net.train()
    nnx_update(net, state["optimizer"], state["metrics"], state["rngs"].params())
    net.calls += 1
    if net.calls % 2:
        # A save after this step finds another mode than a new process starts with.
        net.eval()


# equinox: modules with functions among their leaves, a state of its own, and optax


class EqxNet(eqx.Module):  # type: ignore[misc]
    mlp: Any
    norm: Any
    dropout: Any
    act: Any

    def __init__(self, width: int, key: Any) -> None:
        self.mlp = eqx.nn.MLP(4, 1, width, 2, key=key)
        self.norm = eqx.nn.BatchNorm(1, axis_name="batch", mode="batch")
        self.dropout = eqx.nn.Dropout(0.5)
        self.act = ACT

    def __call__(self, x: Any, state: Any, key: Any) -> Any:
        x, state = self.norm(self.mlp(x), state)
        return self.act(self.dropout(x, key=key)), state


def eqx_state(*, width: int = 8, tx: Any = None, impl: str | None = None) -> State:
    net, own = eqx.nn.make_with_state(EqxNet)(width, key=jax.random.key(2))
    optimizer = (tx or ADAM).init(eqx.filter(net, eqx.is_inexact_array))
    return {"net": net, "own": own, "optimizer": optimizer, "key": jax.random.key(3, impl=impl)}


@eqx.filter_jit  # type: ignore[untyped-decorator]
def eqx_update(net: Any, own: Any, optimizer: Any, key: Any) -> Any:
    key, data, dropout = jax.random.split(key, 3)
    x, y = examples(data)

    def loss(net: Any, own: Any) -> Any:
        batched = jax.vmap(net, in_axes=(0, None, 0), out_axes=(0, None), axis_name="batch")
        found, own = batched(x, own, jax.random.split(dropout, len(x)))
        return mean_square(found, y), own

    gradient, own = eqx.filter_grad(loss, has_aux=True)(net, own)
    updates, optimizer = ADAM.update(gradient, optimizer)
    return eqx.apply_updates(net, updates), own, optimizer, key


def eqx_step(state: State) -> None:
    found = eqx_update(state["net"], state["own"], state["optimizer"], state["key"])
    state["net"], state["own"], state["optimizer"], state["key"] = found


# grain: the iterator of a loader, and of a data set that shuffles as it goes


class Squares:
    """Without a `__repr__`, so that its name contains an address."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> int:
        return index**2


def grain_state(*, seed: int = 1, window: int = 4) -> State:
    alone = grain.sharding.NoSharding()
    sampler = grain.samplers.IndexSampler(
        num_records=40, shuffle=True, seed=seed, num_epochs=2, shard_options=alone
    )
    loader = grain.DataLoader(
        data_source=Squares(), sampler=sampler, operations=[grain.transforms.Batch(3)]
    )
    numbers = grain.MapDataset.range(40).to_iter_dataset()
    shuffled = grain.experimental.WindowShuffleIterDataset(numbers, window_size=window, seed=2)
    return {"loader": iter(loader), "shuffled": iter(shuffled), "total": jnp.zeros(())}


def grain_step(state: State) -> None:
    number = next(state["loader"]).sum() + next(state["shuffled"])
    state["total"] = 1.01 * state["total"] + jnp.float32(number)


TRAININGS = (
    Training("linen", linen_state, linen_step),
    Training("nnx", nnx_state, nnx_step),
    Training("equinox", eqx_state, eqx_step),
    Training("grain", grain_state, grain_step),
)


def bits_of(state: State) -> dict[str, bytes]:
    """Every array of a state by its path. Of an iterator, the next item."""
    found: dict[str, bytes] = {}
    for name, part in state.items():
        if hasattr(type(part), "get_state"):
            found[name] = np.asarray(next(part)).tobytes()
            continue
        arrays = nnx.state(part) if isinstance(part, nnx.Pytree) else part
        for path, leaf in jax.tree_util.tree_leaves_with_path(arrays):
            if isinstance(leaf, jax.Array):
                is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
                numbers = jax.random.key_data(leaf) if is_key else leaf
                found[name + jax.tree_util.keystr(path)] = np.asarray(numbers).tobytes()
    return found


def hashes_of(states: State) -> dict[str, str]:
    """A hash of each array of each state by its path."""
    return {
        f"{name}/{path}": hashlib.sha256(bits).hexdigest()
        for name, state in states.items()
        for path, bits in bits_of(state).items()
    }


def train_all(folder: str, *, waits_at: int | None) -> None:
    states = {training.name: training.fresh() for training in TRAININGS}
    with outlast.Run(f"{folder}/run", states, every_steps=2) as run:
        for step in run.steps(STEPS):
            for training in TRAININGS:
                training.step(states[training.name])
            if step == waits_at:
                print("waiting", flush=True)
                while run.guard.notice is None:
                    time.sleep(0.01)
    print(json.dumps(hashes_of(states)))


if __name__ == "__main__":
    train_all(sys.argv[1], waits_at=int(sys.argv[2]) if sys.argv[2:] else None)
