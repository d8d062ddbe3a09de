"""`outlast exec --durable`: programs survive evictions as their users wrote them, unchanged."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.older

BIN = Path(sys.executable).parent
INCONCLUSIVE = 4
ATTEMPTS_MAX = 10
# What the older environment has shows that a release is supported; the newest, that it survives.
EVICTIONS = "1" if "older" in sys.prefix else "2"
SCRIPTS = {
    "transformers.Trainer": """
import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed


def examples(count):
    tokens = (torch.randint(32, (count, 1)) + torch.arange(16)) % 32
    return [{"input_ids": row, "labels": row} for row in tokens]


set_seed(7)
config = GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=1, n_head=2)
args = TrainingArguments(
    output_dir="out", num_train_epochs=2, per_device_train_batch_size=4, use_cpu=True,
    eval_strategy="steps", eval_steps=40, logging_steps=20, save_strategy="no", report_to="none",
    disable_tqdm=True,
)
model = GPT2LMHeadModel(config)
trainer = Trainer(model, args, train_dataset=examples(400), eval_dataset=examples(16))
trainer.train()
losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
np.savez("result.npz", losses, *[one.numpy() for one in model.state_dict().values()])
""",
    "lightning.Trainer": """
import lightning as L
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(16, 1)
        )

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.layers(x), y)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


L.seed_everything(7)
x = torch.randn(1600, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8, shuffle=True)
net = Net()
trainer = L.Trainer(
    max_epochs=3, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
)
trainer.fit(net, loader)
np.savez("result.npz", *[one.numpy() for one in net.state_dict().values()])
""",
}


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONPATH", "CHECKPOINT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OUTLAST_RUN_URL", "run")
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)


def sh(*command: str) -> "subprocess.CompletedProcess[str]":
    environ = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    return subprocess.run(command, capture_output=True, text=True, env=environ)


def durably(*command: str) -> "subprocess.CompletedProcess[str]":
    return sh("outlast", "exec", "--durable", "--", *command)


def arrays_in(path: Path) -> list[bytes]:
    with np.load(path) as found:
        return [found[name].tobytes() for name in found]


# It starts the script about six times, and each time imports the framework.
@pytest.mark.timeout(900)
@pytest.mark.parametrize("framework", SCRIPTS)
def test_an_unmodified_script_survives_its_drill_with_the_bits_of_a_plain_run(
    framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPTS[framework])
    plain = sh("python", "script.py")
    assert plain.returncode == 0, plain.stderr

    # By time, a kill could come before the first save, and the drill would rightly object.
    monkeypatch.setenv("OUTLAST_EVERY_STEPS", "10")
    for seed in range(ATTEMPTS_MAX):
        kept = tmp_path / f"kept-{seed}"
        drill = ["outlast", "drill", "--evictions", EVICTIONS, "--seed", str(seed)]
        options = ["--keep", str(kept), "--expect", "result.npz", "--"]
        done = sh(*drill, *options, "outlast", "exec", "--durable", "--", "python", str(script))
        if done.returncode != INCONCLUSIVE:
            break

    assert done.returncode == 0, done.stdout + done.stderr
    assert "bit for bit" in done.stdout
    results = list(kept.rglob("result.npz"))
    assert len(results) >= 2, done.stdout
    for result in results:
        assert arrays_in(result) == arrays_in(tmp_path / "result.npz"), result
    logs = [path.read_text(errors="replace") for path in kept.rglob("*") if path.is_file()]
    assert any(f"outlast: {framework} is durable in " in text for text in logs)


WATCHED = "import sys; print(any(type(one).__name__ == '_ImportWatcher' for one in sys.meta_path))"


@pytest.mark.parametrize(
    "launcher",
    [
        ["python"],
        ["sh", "-c", 'true && exec python "$0"'],
        ["torchrun", "--nproc-per-node=1"],
        ["accelerate", "launch", "--cpu"],
    ],
    ids=lambda launcher: launcher[0],
)
def test_every_launcher_passes_it_on_to_the_program(launcher: list[str], tmp_path: Path) -> None:
    (tmp_path / "watched.py").write_text(WATCHED)

    done = durably(*launcher, "watched.py")

    assert done.returncode == 0, done.stderr
    assert done.stdout == "True\n"


def test_a_module_is_watched_and_plain_exec_watches_nothing(tmp_path: Path) -> None:
    (tmp_path / "watched.py").write_text(WATCHED)

    assert durably("python", "-m", "watched").stdout == "True\n"
    assert sh("outlast", "exec", "--", "python", "watched.py").stdout == "False\n"


def test_a_program_that_trains_with_nothing_known_runs_as_it_is_and_that_is_said(
    tmp_path: Path,
) -> None:
    done = durably("python", "-c", "import sys; print('trained'); sys.exit(7)")

    assert done.returncode == 7
    assert done.stdout == "trained\n"
    assert done.stderr == (
        "warning: --durable had no effect: the command trained with none of "
        "transformers.Trainer, lightning.Trainer, pytorch_lightning.Trainer, keras.Model.\n"
    )


def test_without_a_url_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTLAST_RUN_URL")

    done = durably("touch", "started")

    assert done.returncode == 2
    assert done.stderr.startswith("error: --durable needs a folder or URL for the checkpoints.\n")
    assert not (tmp_path / "started").exists()


def test_a_sitecustomize_of_the_environment_still_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/sitecustomize.py").write_text("print('mine, first')\nname = 'mine'\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "mine"))

    done = durably("python", "-c", f"{WATCHED}; import sitecustomize; print(sitecustomize.name)")

    # Also in the process of `outlast exec` itself.
    assert done.stdout == "mine, first\n" * 2 + "True\nmine\n", done.stderr


MODELS = """
import os
import subprocess
import sys

import keras
import numpy as np

x = np.ones((8, 2), "float32")


def trained(durable=None):
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    if durable is not None:
        durable(model, "own")
    model.fit(x, x[:, :1], verbose=0)
    return model


if sys.argv[1] == "two":
    trained()
    trained().fit(x, x[:, :1], verbose=0)
    print(subprocess.run(["env"], capture_output=True, text=True).stdout)
if sys.argv[1] == "own":
    from outlast.integrations.keras import durable

    trained(durable)
if sys.argv[1] == "unknown":
    import importlib.metadata

    importlib.metadata.version = lambda name: "9.0"
    trained()
"""


def test_each_training_of_a_program_has_its_own_folder_and_nobody_else_inherits(
    tmp_path: Path,
) -> None:
    (tmp_path / "models.py").write_text(MODELS)

    done = durably("python", "models.py", "two")

    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("outlast: ")]
    places = ["run", "run/trainer-2", "run/trainer-3"]
    assert said == [f"outlast: keras.Model is durable in {place}" for place in places]
    assert all((tmp_path / place / "manifests").is_dir() for place in places)
    assert "OUTLAST_DURABLE" not in done.stdout and "PYTHONPATH" not in done.stdout


def test_a_model_that_is_durable_already_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text(MODELS)

    done = durably("python", "models.py", "own")

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "own/manifests").is_dir()
    assert not (tmp_path / "run").exists()


def test_an_unknown_release_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text(MODELS)

    done = durably("python", "models.py", "unknown")

    assert done.returncode == 1
    assert (
        "supports keras from 3.13 up to, but not including, 3.16; 9.0 is installed" in done.stderr
    )
    assert not (tmp_path / "run").exists()


SHARED = """
import multiprocessing
import sys

import keras
import numpy as np


def train():
    x = np.ones((8, 2), "float32")
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    model.fit(x, x[:, :1], verbose=0)
    print("trained", flush=True)


if sys.argv[1] == "children":
    for _ in range(2):
        child = multiprocessing.get_context("fork").Process(target=train)
        child.start()
        child.join()
    sys.exit(child.exitcode)
train()
"""


# It imports Keras five times.
@pytest.mark.timeout(900)
def test_a_second_program_of_a_command_does_not_take_over_the_result_of_the_first(
    tmp_path: Path,
) -> None:
    (tmp_path / "shared.py").write_text(SHARED)
    commands = {
        "python shared.py first": 0,
        "python shared.py second": 1,
        "LR=2 python shared.py first": 1,
        # Started again, a program goes on with its own run.
        "python shared.py first ": 0,
        "OUTLAST_RUN_URL=other python shared.py children": 1,
    }

    done = durably("sh", "-c", "\n".join(f"{command}; echo $?" for command in commands))

    expected = "trained 0 1 1 trained 0 trained 1".split()
    assert done.stdout.split() == expected, done.stderr
    for place in ("run", "other"):
        message = f"SharedRun: Another program of this command has already trained in {place}:"
        assert message in done.stderr
