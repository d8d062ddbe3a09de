"""`fit` of a Keras model that is interrupted and resumed has the bits of an undisturbed one."""

import importlib.util
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.frameworks.forking import ForkServer, fork_server
from tests.frameworks.loops import adapted_loops

pytestmark = pytest.mark.older

INTERRUPTED = 75
PROGRAM = """
import os, signal, sys
import keras
import numpy as np
from keras import layers

kind, ending, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
keras.utils.set_random_seed(7)
rng = np.random.default_rng(0)
x = rng.normal(size=(96, 4)).astype("float32")
y = (x[:, :1] * x[:, 1:2] > 0).astype("float32")


class Shuffled(keras.utils.PyDataset):
    def __init__(self):
        super().__init__()
        self.order, self.rng = np.arange(96), np.random.default_rng(3)

    def __len__(self):
        return 6

    def __getitem__(self, number):
        rows = self.order[16 * number : 16 * number + 16]
        return x[rows] + np.random.normal(size=(16, 4)).astype("float32"), y[rows]

    def on_epoch_begin(self):
        self.rng.shuffle(self.order)

    def on_epoch_end(self):
        np.random.shuffle(self.order)


class Drawing(Shuffled):
    # Draws from generators of Keras. As a training set, it shuffles only when an epoch ends.
    def __init__(self, length):
        super().__init__()
        self.noise = keras.Sequential([layers.GaussianNoise(0.5, seed=4), layers.Rescaling(2.0)])
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, number):
        features, labels = super().__getitem__(number)
        drawn = keras.random.normal(features.shape) + self.rng.normal()
        return np.asarray(self.noise(features, training=True) + drawn), labels

    def on_epoch_begin(self):
        pass


def loader():
    import torch
    from torch.utils.data import DataLoader, TensorDataset, default_convert
    # With another backend, Keras does not do it.
    torch.manual_seed(7)
    return DataLoader(TensorDataset(*map(default_convert, (x, y))), batch_size=16, shuffle=True)


class Counter:
    def __init__(self):
        self.count, self.batches = 0, set()


class Keeping(keras.callbacks.Callback):
    # Keeps what changes in each batch in every kind of attribute.
    def __init__(self):
        super().__init__()
        self.by_batch, self.lost = {}, []
        self.counter, self.rng = Counter(), np.random.default_rng(5)
        self.mean = keras.metrics.Mean()
        self.shift = keras.Variable(np.zeros(3, "float32"), name="shift")
        # It makes its variables with its first update.
        self.optimizers = {"shift": keras.optimizers.SGD(0.1, momentum=0.9)}

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1 and keras.backend.backend() == "torch":
            # Elsewhere, the optimizer refuses fewer variables than it has.
            model.layers[0].trainable = False

    def on_train_batch_end(self, batch, logs=None):
        self.lost.append(object())
        self.by_batch[batch] = logs["loss"]
        self.counter.count += 1
        self.counter.batches.add(batch)
        self.mean.update_state(logs["loss"] * self.rng.normal())
        gradient = keras.ops.ones(3) * logs["loss"]
        self.optimizers["shift"].apply([gradient], [self.shift])

    def arrays(self):
        kept = [self.mean.result(), self.shift.value, *self.optimizers["shift"].variables]
        kept += [self.counter.count, len(self.counter.batches), *self.by_batch.values()]
        return [np.asarray(keras.ops.convert_to_numpy(one)) for one in kept]


class Steps(keras.callbacks.Callback):
    # Ends the process at a certain batch of the run.
    def on_train_batch_end(self, batch, logs=None):
        model.losses_seen.append(logs["loss"])
        model.count += 1
        with open("steps.txt", "a+") as file:
            file.write(f"{batch}\\n")
            file.seek(0)
            count = len(file.readlines())
        if ending != "plain" and count == number:
            os.kill(os.getpid(), signal.Signals[ending])
            while not model.outlast_fit.guard.interrupted:
                pass


def normalizing():
    if keras.backend.backend() != "torch":
        return layers.BatchNormalization()
    # Has buffers that are no variables of Keras.
    import torch
    return layers.TorchModuleWrapper(torch.nn.BatchNorm1d(8))


model = keras.Sequential([
    layers.Dense(8, activation="relu"), normalizing(), layers.BatchNormalization(),
    layers.Dropout(0.3), layers.Dense(1, activation="sigmoid"),
])
model.losses_seen, model.count = [], 0
model.compile(optimizer=keras.optimizers.AdamW(3e-3), loss="mse", metrics=["accuracy"])
data = {
    "arrays": lambda: {"x": x, "y": y, "batch_size": 16, "validation_split": 0.25},
    "pydataset": lambda: {"x": Shuffled(), "validation_data": (x, y)},
    "drawing": lambda: {"x": Drawing(6), "validation_data": Drawing(2)},
    "loader": lambda: {"x": loader()},
}[kind]()
keeping = Keeping()
callbacks = [
    keeping,
    Steps(),
    keras.callbacks.EarlyStopping(monitor="loss", patience=9, restore_best_weights=True),
    keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=1, min_delta=10.0, factor=0.9),
    keras.callbacks.LearningRateScheduler(lambda epoch, lr: lr * 0.9),
]
if ending != "plain":
    from outlast.integrations.keras import durable
    durable(model, "run", every_steps=2)
history = model.fit(**data, epochs=3, verbose=0, callbacks=callbacks)
logs = [np.asarray(found) for _, found in sorted(history.history.items())]
kept = [np.asarray(model.losses_seen), np.asarray(model.count)]
if keras.backend.backend() == "torch":
    kept += [found.numpy() for found in model.layers[1].module.buffers()]
kept += keeping.arrays()
np.savez("result.npz", *model.get_weights(), *logs, np.asarray(history.epoch), *kept)
"""
PAGE = Path(__file__).parents[2] / "docs/how-to/train-with-keras.md"
BACKENDS = [name for name in ("torch", "jax") if importlib.util.find_spec(name)]
KINDS = {"arrays": 5, "pydataset": 6, "drawing": 6, "loader": 6}


@pytest.fixture(scope="module", params=BACKENDS)
def server(request: pytest.FixtureRequest) -> Iterator[ForkServer]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("KERAS_BACKEND", request.param)
        patched.setenv("OUTLAST_EXIT_CODE", str(INTERRUPTED))
        with fork_server("keras", "outlast.integrations.keras", *BACKENDS[:1]) as server:
            yield server


def run(server: ForkServer, folder: Path, *arguments: str, source: str = PROGRAM) -> int:
    folder.mkdir(exist_ok=True)
    program = folder / "program.py"
    program.write_text(source)
    started = server.start(program, arguments, folder=folder, output=folder / "output.txt")
    code = started.wait()
    if code not in (0, INTERRUPTED, -signal.SIGKILL):
        pytest.fail(started.text())
    return code


def arrays_in(folder: Path) -> list[bytes]:
    with np.load(folder / "result.npz") as found:
        return [found[name].tobytes() for name in found]


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_that_is_evicted_four_times_has_the_bits_of_a_plain_one(
    server: ForkServer, kind: str, tmp_path: Path
) -> None:
    batches = KINDS[kind]
    plain, durable = tmp_path / "plain", tmp_path / "durable"

    assert run(server, plain, kind, "plain", "0") == 0
    # Within an epoch, at the last batch of the second one, without notice, and within the third.
    codes = [
        run(server, durable, kind, ending, str(number))
        for ending, number in (
            ("SIGTERM", 3),
            ("SIGTERM", 2 * batches),
            ("SIGKILL", 2 * batches + 2),
            ("SIGTERM", 2 * batches + 4),
            ("SIGTERM", 0),
        )
    ]

    assert codes == [INTERRUPTED, INTERRUPTED, -signal.SIGKILL, INTERRUPTED, 0]
    assert arrays_in(durable) == arrays_in(plain)
    output = durable / "output.txt"
    lost = "Keeping.lost cannot be saved, and a resume loses it."
    # Once in each process that saved.
    assert output.read_text().count(lost) == len(codes)
    # Once more: it is finished, and only writes its result again.
    (durable / "result.npz").unlink()
    steps = (durable / "steps.txt").read_text()
    assert run(server, durable, kind, "SIGTERM", "0") == 0
    assert (durable / "steps.txt").read_text() == steps
    assert output.read_text().count("had already finished at step") == 1
    assert arrays_in(durable) == arrays_in(plain)


WARNED = """
import keras
import numpy as np
import torch
from outlast.integrations.keras import durable

x = np.zeros((32, 2), "float32")


def batches():
    while True:
        yield x, x[:, 0]


model = keras.Sequential([keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
durable(model, "run")
model.fit(x, x[:, 0], validation_data=batches(), validation_steps=1, epochs=1, verbose=0)
durable(model, "other").fit(x, x[:, 0], validation_data=[x, x[:, 0]], epochs=1, verbose=0)


class Drawing(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, number):
        return torch.randn(2), torch.zeros(1)


class Fading(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        self.model.layers[0].rate = 0.1


model = keras.Sequential([keras.layers.Dropout(0.5), keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
durable(model, "third", every_steps=1)
loader = torch.utils.data.DataLoader(Drawing(), 4, num_workers=1, persistent_workers=True)
model.fit(loader, epochs=2, verbose=0, callbacks=[Fading()])
"""


def test_what_would_differ_after_a_resume_is_warned_about_once(
    server: ForkServer, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(WARNED)

    started = server.start(program, folder=tmp_path, output=tmp_path / "output.txt")

    assert started.wait() == 0, started.text()
    text = started.text()
    assert text.count("The validation data are a generator, whose position") == 1
    assert text.count("The training data set draws from a global random generator in worker") == 1
    is_compiled = os.environ["KERAS_BACKEND"] == "jax"
    assert text.count("Dropout.rate has changed during fit(). JAX goes on") == is_compiled


REFUSED = """
import importlib.metadata
import sys
import keras
import numpy as np
from outlast.integrations.keras import durable
from outlast.errors import OutlastError

x = np.zeros((32, 2), "float32")
options, fit, trained = {{}}, {{}}, []


class Watch(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        trained.append(batch)


class Parallel(keras.utils.PyDataset):
    def __len__(self):
        return 4

    def __getitem__(self, number):
        return x, x[:, 0]


def batches():
    yield x, x[:, 0]


def of_another_run():
    other = keras.Sequential([keras.layers.Dense(7), keras.layers.Dense(1)])
    other.compile(optimizer="sgd", loss="mse")
    durable(other, "run").fit(x, x[:, 0], verbose=0)


def pretend_version(version):
    importlib.metadata.version = lambda _: version


{case}
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse", **options)
try:
    durable(model, "run")
    {wrong}
    model.fit(**({{"x": x, "y": x[:, 0]}} | fit), callbacks=[Watch()], verbose=0)
except OutlastError as error:
    print(error, error.hint)
    sys.exit(3 if trained else 0)
sys.exit(4)
"""


@pytest.mark.parametrize(
    ("case", "wrong", "words"),
    [
        ("fit['steps_per_epoch'] = 2", "", "steps_per_epoch is set"),
        ("fit |= {'x': batches(), 'y': None}", "", "comes from GeneratorDataAdapter"),
        ("fit |= {'x': Parallel(workers=2), 'y': None}", "", "loads ahead with workers"),
        ("", "durable(model, 'run')", "is already durable"),
        ("of_another_run()", "", "dense_1/bias: saved, but not in this model"),
        ("pretend_version('2.99.0')", "", "2.99.0 is installed"),
        ("keras.__version__", "sys.modules", None),
    ],
    ids=[
        *("steps_per_epoch", "generator", "workers", "twice", "URL of another run"),
        *("unknown release", "nothing wrong"),
    ],
)
def test_what_cannot_be_resumed_exactly_is_refused_before_training(
    server: ForkServer, case: str, wrong: str, words: str | None, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(REFUSED.format(case=case, wrong=wrong or "pass"))

    started = server.start(program, folder=tmp_path, output=tmp_path / "output.txt")

    assert started.wait() == (4 if words is None else 0), started.text()
    assert (words or "") in started.text()


def test_the_program_on_the_page_gives_the_bits_of_the_original(
    server: ForkServer, tmp_path: Path
) -> None:
    [loop] = adapted_loops(PAGE)
    before, after = tmp_path / "before", tmp_path / "after"

    assert run(server, before, str(before), source=loop.before) == 0
    assert run(server, after, str(after), source=loop.after) == 0

    assert loop.changed_lines <= 5
    assert arrays_in(after) == arrays_in(before)
