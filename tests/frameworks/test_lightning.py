"""Trainings with Lightning: evicted and killed, they have the bits of plain, undisturbed ones."""

import contextlib
import importlib
import importlib.metadata
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outlast.journal import AttemptExited, RunFinished, Saved, read_journal
from outlast.storage import open_store
from tests.frameworks.forking import ForkedProgram, ForkServer, fork_server
from tests.frameworks.loops import AdaptedLoop

PROGRAM = Path(__file__).parent / "lightning_trainings.py"
INTERRUPTED = 75
TERM, KILL = signal.SIGTERM, signal.SIGKILL
# As in a Job, and long enough for any stall of a busy machine.
ENVIRON = {"OUTLAST_EXIT_CODE": str(INTERRUPTED), "OUTLAST_GRACE_SECONDS": "600"}


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    modules = ("torch", "torch.distributed", "lightning.pytorch", "torchmetrics", "xxhash")
    with fork_server(*modules) as found:
        yield found


class Trainings:
    """Starts one kind of training again and again, in a folder of its own."""

    def __init__(self, server: ForkServer, kind: str, folder: Path, *, ranks: int = 1) -> None:
        self._server = server
        self._kind = kind
        self._folder = folder
        self._ranks = ranks
        self._attempts = 0

    @contextlib.contextmanager
    def started(self, *options: str) -> Iterator[list[ForkedProgram]]:
        """All ranks of an attempt, as torchrun would start them."""
        self._attempts += 1
        programs = [
            self._server.start(
                PROGRAM,
                [self._kind, str(self._folder), *options],
                folder=self._folder,
                output=self._folder / f"output-{self._attempts}-{rank}.txt",
                environ=ENVIRON | environ,
            )
            for rank, environ in enumerate(self._environs())
        ]
        try:
            yield programs
        finally:
            for program in programs:
                program.kill_session()

    def plain(self) -> list[str]:
        """What plain Lightning comes to, without any of this library."""
        return self._results()

    def after(self, *signals: tuple[int, signal.Signals], **options: object) -> list[str]:
        """What it comes to after some evictions, each at a batch of its attempt."""
        more = [f"url={self._folder / 'run'}", *(f"{name}={one}" for name, one in options.items())]
        for batch, number in signals:
            at = [f"signal_at={batch}", f"signal={number.name}"]
            # A silent kill loses what was not saved before.
            every = ["every=1"] if number is KILL else []
            with self.started(*more, *at, *every) as programs:
                codes = [program.wait() for program in programs]
                expected = -KILL if number is KILL else INTERRUPTED
                assert codes == [expected] * self._ranks, [one.text() for one in programs]
        return self._results(*more)

    def _results(self, *options: str) -> list[str]:
        with self.started(*options) as programs:
            codes = [program.wait() for program in programs]
            assert codes == [0] * self._ranks, [program.text() for program in programs]
            return [result_of(program.text()) for program in programs]

    def _environs(self) -> list[dict[str, str]]:
        if self._ranks == 1:
            return [{}]
        with socket.create_server(("127.0.0.1", 0)) as found:
            port = str(found.getsockname()[1])
        return [
            {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "GROUP_RANK": "0",
                "WORLD_SIZE": str(self._ranks),
                "LOCAL_WORLD_SIZE": str(self._ranks),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
                "TORCHELASTIC_RUN_ID": "test",
            }
            for rank in range(self._ranks)
        ]


def result_of(text: str) -> str:
    lines = [line for line in text.splitlines() if line.startswith("result")]
    assert lines, text
    return lines[-1]


def folders(tmp_path: Path) -> tuple[Path, Path]:
    plain, durable = tmp_path / "plain", tmp_path / "durable"
    plain.mkdir()
    durable.mkdir()
    return plain, durable


@pytest.mark.older
@pytest.mark.parametrize("kind", ["shuffled", "validation", "optimizers"])
def test_three_evictions_change_no_bit(kind: str, server: ForkServer, tmp_path: Path) -> None:
    plain, folder = folders(tmp_path)

    found = Trainings(server, kind, folder).after((5, TERM), (9, KILL), (10, TERM))

    assert found == Trainings(server, kind, plain).plain()


def test_a_run_that_an_earlier_version_saved_goes_on(server: ForkServer, tmp_path: Path) -> None:
    training = Trainings(server, "optimizers", tmp_path)
    options = (f"url={tmp_path / 'run'}", "signal_at=5", "form=older")
    with training.started(*options) as [program]:
        assert program.wait() == INTERRUPTED, program.text()

    # It has lost what that version did not save, but nothing else stands in its way.
    [found] = training.after((9, TERM))

    assert found.startswith("result")


@pytest.mark.parametrize("kind", ["loaders", "stream", "swa"])
def test_an_eviction_within_an_epoch_changes_no_bit(
    kind: str, server: ForkServer, tmp_path: Path
) -> None:
    plain, folder = folders(tmp_path)

    # The second one at the end of an epoch.
    found = Trainings(server, kind, folder).after((15, TERM), (9, TERM))

    assert found == Trainings(server, kind, plain).plain()


def test_a_learning_rate_is_found_again_in_each_attempt_and_changes_no_bit(
    server: ForkServer, tmp_path: Path
) -> None:
    plain, folder = folders(tmp_path)

    found = Trainings(server, "finder", folder).after((20, TERM), (19, KILL))

    assert found == Trainings(server, "finder", plain).plain()


def test_evictions_change_neither_random_validation_data_nor_which_files_are_written(
    server: ForkServer, tmp_path: Path
) -> None:
    plain, folder = folders(tmp_path)

    # A file of the second update waits for the validation. That of the eighth is just written.
    found = Trainings(server, "files", folder).after((6, TERM), (10, TERM))

    assert found == Trainings(server, "files", plain).plain()


def test_a_file_that_a_killed_attempt_left_as_the_last_one_is_warned_about(
    server: ForkServer, tmp_path: Path
) -> None:
    training = Trainings(server, "files", tmp_path)
    run = f"url={tmp_path / 'run'}"
    # An update has two batches, and the second update writes the first file.
    for options in (["signal_at=1"], ["signal_at=5", "signal=SIGKILL"]):
        with training.started(run, *options) as (program,):
            assert program.wait() in (INTERRUPTED, -KILL), program.text()

    with training.started(run) as (program,):
        assert program.wait() == 0, program.text()
        text = program.text()

    assert "last.ckpt is newer than the state that is resumed" in text
    assert (tmp_path / "loss_step-max/last-v1.ckpt").exists()


def test_validation_data_that_workers_draw_and_keep_are_warned_about(
    server: ForkServer, tmp_path: Path
) -> None:
    training = Trainings(server, "workers", tmp_path)

    with training.started(f"url={tmp_path / 'run'}") as (program,):
        assert program.wait() == 0, program.text()
        text = program.text()

    assert "The validation data set draws from a global random generator in worker" in text
    assert "The validation data set changes dataset._count in worker processes" in text
    assert "persistent_workers=False" in text


def test_a_second_fit_of_the_same_trainer_is_a_run_of_its_own(
    server: ForkServer, tmp_path: Path
) -> None:
    plain, folder = folders(tmp_path)

    # The first fit has 36 batches, and is only restored from the second attempt on.
    found = Trainings(server, "again", folder).after((41, TERM), (3, KILL), (8, TERM))

    assert found == Trainings(server, "again", plain).plain()


def test_the_other_distribution_of_lightning_is_supported_too(
    server: ForkServer, tmp_path: Path
) -> None:
    plain, folder = folders(tmp_path)

    found = Trainings(server, "shuffled", folder).after((5, TERM), package="pytorch_lightning")

    assert found == Trainings(server, "shuffled", plain).plain()


@pytest.mark.older
def test_a_notice_to_one_rank_stops_all_ranks_and_changes_no_bit(
    server: ForkServer, tmp_path: Path
) -> None:
    plain, folder = folders(tmp_path)

    found = Trainings(server, "ddp", folder, ranks=2).after((4, TERM), (5, TERM), rank=1)

    assert found == Trainings(server, "ddp", plain, ranks=2).plain()


def test_ranks_that_lightning_starts_by_itself_exit_with_75_too(
    server: ForkServer, tmp_path: Path
) -> None:
    training = Trainings(server, "ddp", tmp_path)

    # Lightning starts rank 1 as a program, without the imports of the server.
    found = training.after((4, TERM), rank=1)

    assert "[3, 18, 144]" in found[0]


TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


# Launchers start ranks that import the framework.
@pytest.mark.timeout(600)
@pytest.mark.parametrize("launcher", [TORCHRUN, []], ids=["torchrun", "lightning"])
def test_a_notice_to_the_launcher_of_ranks_needs_no_deadline_and_changes_no_bit(
    launcher: list[str], server: ForkServer, tmp_path: Path
) -> None:
    plain, folder = folders(tmp_path)
    undisturbed = Trainings(server, "ddp", plain, ranks=2).plain()
    run, output = folder / "run", folder / "output.txt"
    command = [sys.executable, "-m", "outlast", "exec", "--", sys.executable, *launcher]
    command += [str(PROGRAM), "ddp", str(folder), f"url={run}"]
    # A deadline that is never reached: a process that waited for it would not end in time.
    environ = {**os.environ, "OMP_NUM_THREADS": "1"} | ENVIRON | {"OUTLAST_GRACE_SECONDS": "3600"}

    with output.open("ab") as sink:
        options: dict[str, Any] = {"cwd": folder, "env": environ, "stdout": sink, "stderr": sink}
        program = subprocess.Popen([*command, "notice_at=16", "rank=1"], **options)
        while not (folder / "reached").exists() and program.poll() is None:
            time.sleep(0.05)
        program.send_signal(TERM)
        assert program.wait() == INTERRUPTED, output.read_text()
        done = subprocess.run(command, **options, check=False)

    assert done.returncode == 0, output.read_text()
    (interrupted, finished) = read_journal(open_store(str(run)))
    [saved] = [one for one in interrupted.events if isinstance(one, Saved)]
    exits = [one for one in interrupted.events if isinstance(one, AttemptExited)]
    # The step in progress, or the one after it.
    assert saved.final
    assert saved.step >= 16
    assert [(one.exit_code, one.step) for one in exits] == [(INTERRUPTED, saved.step)]
    assert RunFinished in map(type, finished.events)
    results = sorted(line for line in output.read_text().splitlines() if line.startswith("result"))
    assert results == sorted(undisturbed)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_loop_with_fabric_has_the_bits_of_an_undisturbed_one(
    ranks: int, server: ForkServer, tmp_path: Path
) -> None:
    plain, folder = folders(tmp_path)

    found = Trainings(server, f"fabric{ranks}", folder, ranks=ranks).after((4, TERM), (5, TERM))

    assert found == Trainings(server, f"fabric{ranks}", plain, ranks=ranks).plain()


def test_a_scheduler_that_the_state_of_fabric_lacks_is_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from outlast.integrations.lightning import durable

    torch = importlib.import_module("torch")
    fabric = lightning().Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    net = torch.nn.Linear(1, 1)
    model, optimizer = fabric.setup(net, torch.optim.SGD(net.parameters(), lr=0.1))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    state = {"model": model, "optimizer": optimizer}

    durable(fabric, tmp_path / "complete", state | {"schedulers": [scheduler]})
    assert not caplog.messages
    durable(fabric, tmp_path / "incomplete", state)

    (message,) = caplog.messages
    assert "does not contain the learning-rate scheduler of an optimizer (StepLR)" in message


def test_a_run_that_has_finished_is_not_trained_again_nor_continued_by_another_program(
    server: ForkServer, tmp_path: Path
) -> None:
    training = Trainings(server, "shuffled", tmp_path)
    (first,) = training.after(test=1)
    with training.started(f"url={tmp_path / 'run'}", "test=1") as (program,):
        assert program.wait() == 0, program.text()
        assert result_of(program.text()).split()[1] == first.split()[1]
        assert f"The run in {tmp_path / 'run'} had already finished at step 36" in program.text()

    other = Trainings(server, "optimizers", tmp_path)
    with other.started(f"url={tmp_path / 'run'}") as (program,):
        assert program.wait() == 1
        assert "StateMismatch" in program.text()


PAGE = Path(__file__).parent.parent.parent / "docs/how-to/train-with-lightning.md"
CHANGED_LINES_MAX = 5
# Put before the program: it signals itself at the third optimizer step of its process.
EVICTED = """
import os, signal
from torch.optim.optimizer import register_optimizer_step_post_hook
steps = []
def count(*_):
    steps.append(1)
    if len(steps) == 3:
        os.kill(os.getpid(), signal.SIGTERM)
register_optimizer_step_post_hook(count)
"""


def shown_loops() -> list[AdaptedLoop]:
    blocks = re.findall(r"^```diff loop=(\w+)\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    return [AdaptedLoop(name, tuple(text.splitlines())) for name, text in blocks]


@pytest.mark.parametrize("loop", shown_loops(), ids=lambda loop: loop.name)
def test_the_programs_of_the_page_survive_an_eviction_with_the_same_bits(
    loop: AdaptedLoop, server: ForkServer, tmp_path: Path
) -> None:
    plain, folder = folders(tmp_path)
    assert loop.changed_lines <= CHANGED_LINES_MAX

    def code_of(text: str, where: Path) -> int:
        program = where / "program.py"
        program.write_text(text)
        output = where / "output.txt"
        return server.start(
            program, [str(where)], folder=where, output=output, environ=ENVIRON
        ).wait()

    codes = [
        code_of(loop.before, plain),
        code_of(EVICTED + loop.after, folder),
        code_of(EVICTED + loop.after, folder),
        code_of(loop.after, folder),
    ]

    assert codes == [0, INTERRUPTED, INTERRUPTED, 0], (folder / "output.txt").read_text()
    with np.load(plain / "result.npz") as expected, np.load(folder / "result.npz") as found:
        assert [found[name].tobytes() for name in found] == [
            expected[name].tobytes() for name in expected
        ]


def lightning() -> Any:
    return importlib.import_module("lightning")


def quiet_trainer(folder: Path, **settings: Any) -> Any:
    options = {"accelerator": "cpu", "devices": 1, "max_epochs": 1, "logger": False}
    return lightning().Trainer(
        **(options | settings),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        pytest.param({"strategy": "ddp_spawn", "devices": 2}, "multiprocessing", id="spawn"),
        pytest.param({"val_check_interval": "00:00:01:00"}, "by the clock", id="clock"),
    ],
)
def test_what_cannot_be_resumed_exactly_is_refused(
    settings: dict[str, Any], words: str, tmp_path: Path
) -> None:
    from outlast.integrations.lightning import UnsupportedTraining, durable

    with pytest.raises(UnsupportedTraining, match=words):
        durable(quiet_trainer(tmp_path, **settings), tmp_path / "run")


@pytest.mark.older
@pytest.mark.filterwarnings("ignore")
def test_wrong_use_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from outlast.integrations.lightning import UnsupportedTraining, durable, durable_callback
    from outlast.integrations.versions import UnsupportedVersion

    trainer = durable(quiet_trainer(tmp_path), tmp_path / "run")
    with pytest.raises(UnsupportedTraining, match="durable already"):
        durable(trainer, tmp_path / "run")
    callbacks = [durable_callback(tmp_path / "run"), durable_callback(tmp_path / "run")]
    with pytest.raises(UnsupportedTraining, match="durable already"):
        boring = importlib.import_module("lightning.pytorch.demos.boring_classes")
        quiet_trainer(tmp_path, callbacks=callbacks).fit(boring.BoringModel())
    with pytest.raises(TypeError, match="takes a Trainer or a Fabric of Lightning, not a dict"):
        durable({}, tmp_path / "run")
    with pytest.raises(TypeError, match="needs the state"):
        durable(lightning().Fabric(accelerator="cpu", devices=1), tmp_path / "run")
    used = quiet_trainer(tmp_path)
    used.fit_loop.epoch_loop.batch_progress.increment_ready()
    with pytest.raises(UnsupportedTraining, match="already trained on 1 batches"):
        durable(used, tmp_path / "run")
    used.callbacks.append(durable_callback(tmp_path / "run"))
    with pytest.raises(UnsupportedTraining, match="already trained on 1 batches"):
        used.fit(boring.BoringModel())
    sharded = quiet_trainer(tmp_path)
    sharded.strategy.__class__ = type("FSDPStrategy", (type(sharded.strategy),), {})
    with pytest.raises(UnsupportedTraining, match="not with FSDPStrategy"):
        durable(sharded, tmp_path / "run")
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "3.0")
    with pytest.raises(UnsupportedVersion, match=r"3\.0 is installed"):
        durable(quiet_trainer(tmp_path), tmp_path / "run")
    assert not (tmp_path / "run").exists()
