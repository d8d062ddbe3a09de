"""Trainers of Hugging Face that are evicted end with the weights and logs of an undisturbed one."""

import json
import os
import shutil
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

from tests.frameworks.forking import ForkedProgram, ForkServer, fork_server
from tests.frameworks.loops import PAGE, adapted_loops

PROGRAM = Path(__file__).with_name("hf_training.py")
BASIC = [
    f"{collator}-{evaluation}-accumulate{count}"
    for collator in ("plain", "mlm")
    for evaluation in ("eval", "train")
    for count in (1, 2)
]


# What the programs import, so that each need not do it again.
MODELS = [f"transformers.models.{name}.modeling_{name}" for name in ("llama", "bert", "t5")]
LOADED = ["torch", "transformers.trainer_seq2seq", *MODELS, "outlast.run.driven"]
KINDS = ("sft", "dpo", "grpo", "reward", "kto")
OF_TRL = ["datasets", "peft", *(f"trl.trainer.{kind}_trainer" for kind in KINDS)]


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with fork_server(*LOADED) as made:
        yield made


@pytest.fixture(scope="module")
def trl_server() -> Iterator[ForkServer]:
    """One of its own, because TRL changes transformers when it is imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        with fork_server(*LOADED, *OF_TRL) as made:
            yield made


def train(
    server: ForkServer, case: str, folder: Path, *options: str, evict: str = "", form: str = ""
) -> tuple[int, str]:
    """Run the program; returns its exit code and what it printed."""
    folder.mkdir(exist_ok=True)
    program = server.start(
        PROGRAM,
        [case, str(folder), *options],
        folder=folder,
        output=folder / "output.txt",
        environ={
            "OUTLAST_TEST_EVICT": evict,
            "OUTLAST_TEST_FORMAT": form,
            "OMP_NUM_THREADS": "1",
        },
    )
    return program.wait(), program.text()


def result_of(server: ForkServer, case: str, folder: Path, *options: str) -> dict[str, Any]:
    code, text = train(server, case, folder, *options)
    assert code == 0, text
    found: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return found


def evict(server: ForkServer, case: str, folder: Path, *steps: int) -> None:
    """Three attempts: with a notice, without one, and again with one."""
    expected = {"term": 75, "kill": -signal.SIGKILL}
    for kind, step in zip(("term", "kill", "term"), steps, strict=True):
        code, text = train(server, case, folder, "durable", evict=f"{kind}:{step}")
        assert code == expected[kind], text


# A few with the oldest releases too: each case starts five processes.
OLDER = (
    "plain-eval-accumulate2",
    "mlm-eval-accumulate1",
    "stopping",
    "iterable",
    "drawing",
    "variables",
)


def cases(*names: str) -> list[Any]:
    return [
        pytest.param(name, marks=[pytest.mark.older] if name in OLDER else []) for name in names
    ]


@pytest.mark.parametrize(
    "case", cases(*BASIC, "seeded-train-accumulate1", "seeded-eval-accumulate2")
)
def test_an_evicted_trainer_gives_the_weights_and_logs_of_a_plain_one(
    case: str, server: ForkServer, tmp_path: Path
) -> None:
    undisturbed = result_of(server, case, tmp_path / "plain", "plain")
    steps = (3, 7, 13) if case.endswith("2") else (5, 12, 22)

    evict(server, case, tmp_path / "durable", *steps)

    assert result_of(server, case, tmp_path / "durable", "durable") == undisturbed


def test_a_run_that_an_earlier_version_saved_goes_on(server: ForkServer, tmp_path: Path) -> None:
    case, folder = "plain-eval-accumulate2", tmp_path / "durable"
    code, text = train(server, case, folder, "durable", evict="term:5", form="older")
    assert code == 75, text
    code, text = train(server, case, folder, "durable", evict="term:9")
    assert code == 75, text

    found = result_of(server, case, folder, "durable")

    assert found == result_of(server, case, tmp_path / "plain", "plain")


KINDS_OF_TRAINING = (
    *("iterable", "grouped", "workers", "stopping", "own", "variables"),
    # Evaluations that draw from generators of their own, and keep workers.
    *("drawing", "kept-workers"),
)


@pytest.mark.parametrize("case", cases(*KINDS_OF_TRAINING))
def test_every_kind_of_training_ends_as_if_undisturbed(
    case: str, server: ForkServer, tmp_path: Path
) -> None:
    undisturbed = result_of(server, case, tmp_path / "plain", "plain")

    evict(server, case, tmp_path / "durable", 3, 6, 8)
    # A new machine has nothing but the run.
    shutil.rmtree(tmp_path / "durable" / "output", ignore_errors=True)

    assert result_of(server, case, tmp_path / "durable", "durable") == undisturbed
    if case == "stopping":
        code, text = train(server, case, tmp_path / "durable", "durable")
        assert code == 0, text
        assert "had already finished at step" in text
    if case == "own":
        text = (tmp_path / "durable" / "output.txt").read_text()
        # Once in each process that saved.
        assert text.count("Average.by_pair cannot be saved, and a resume loses it.") == 4


def test_a_finished_run_goes_on_if_it_gets_more_epochs(server: ForkServer, tmp_path: Path) -> None:
    undisturbed = result_of(server, "long", tmp_path / "plain", "plain")
    result_of(server, "short", tmp_path / "durable", "durable")

    found = result_of(server, "long", tmp_path / "durable", "durable")

    assert found["weights"] == undisturbed["weights"]
    assert found["logs"][-1]["step"] == undisturbed["logs"][-1]["step"] == 12


@pytest.mark.older
def test_files_mode_stores_what_a_trainer_writes_itself(server: ForkServer, tmp_path: Path) -> None:
    undisturbed = result_of(server, "files", tmp_path / "plain", "plain")

    evict(server, "files", tmp_path / "durable", 3, 11, 16)
    shutil.rmtree(tmp_path / "durable" / "output")
    found = result_of(server, "files", tmp_path / "durable", "durable")

    assert "OwnFiles has its own _save_checkpoint" in (tmp_path / "durable/output.txt").read_text()
    # The trainer itself does not save the loss of the training as a whole.
    for result in (found, undisturbed):
        del result["loss"], result["logs"][-1]["train_loss"]
    assert found == undisturbed


@pytest.mark.older
def test_a_run_can_start_from_a_folder_of_the_trainer(server: ForkServer, tmp_path: Path) -> None:
    result_of(server, "saving", tmp_path / "first", "plain")
    start = str(tmp_path / "first/output/checkpoint-9")
    undisturbed = result_of(server, "saving", tmp_path / "plain", "plain", start)

    code, text = train(server, "saving", tmp_path / "durable", "durable", start, evict="term:14")
    assert code == 75, text
    found = result_of(server, "saving", tmp_path / "durable", "durable", start)

    assert found == undisturbed
    assert "is ignored" in (tmp_path / "durable/output.txt").read_text()


REFUSALS = {
    "jit": ("OutlastError", "enable_jit_checkpoint is on"),
    "twice": ("OutlastError", "already durable"),
    "trained": ("OutlastError", "already trained 2 steps"),
    "again": ("OutlastError", "already trained its run"),
    "other_model": ("StateMismatch", "lm_head"),
    "other_arguments": ("", ""),
    "other_optimizer": ("StateMismatch", "optim was 'adamw_torch"),
    "other_accumulation": ("StateMismatch", "gradient_accumulation_steps was 1 and is now 2"),
    "other_thing": ("TypeError", "not a LlamaForCausalLM"),
    "unknown_option": ("TypeError", "every_step"),
    "unknown_mode": ("ValueError", "got 'fast'"),
    "no_place": ("SettingError", "No folder or URL"),
    "unknown_version": ("UnsupportedVersion", "5.99.0 is installed"),
    "unknown_trl": ("UnsupportedVersion", "supports trl from 1.16"),
    "exported": ("", ""),
    "other_export": ("StateMismatch", "another model"),
}


@pytest.mark.older
def test_wrong_uses_are_refused_and_a_model_can_be_exported(
    server: ForkServer, tmp_path: Path
) -> None:
    program = PROGRAM.with_name("hf_refusals.py")
    output = tmp_path / "output.txt"

    done = server.start(program, [str(tmp_path)], folder=tmp_path, output=output)

    assert done.wait() == 0, done.text()
    lines = [json.loads(line) for line in done.text().splitlines() if line.startswith('{"case"')]
    assert [line["case"] for line in lines] == list(REFUSALS)
    for line in lines:
        kind, words = REFUSALS[line["case"]]
        assert line["kind"] == kind, line
        assert words in line["text"], line
    assert "learning_rate was 5e-05 and is now 0.5" in done.text()


@pytest.mark.parametrize("case", ["sft", "lora", "dpo", "grpo", "streaming"])
def test_trainers_of_trl_end_as_if_undisturbed(
    case: str, trl_server: ForkServer, tmp_path: Path
) -> None:
    undisturbed = result_of(trl_server, case, tmp_path / "plain", "plain")

    evict(trl_server, case, tmp_path / "durable", 2, 4, 7)

    assert result_of(trl_server, case, tmp_path / "durable", "durable") == undisturbed


@pytest.mark.parametrize("case", ["seq2seq", "reward", "kto"])
def test_other_trainers_end_as_if_undisturbed_after_one_eviction(
    case: str, trl_server: ForkServer, tmp_path: Path
) -> None:
    undisturbed = result_of(trl_server, case, tmp_path / "plain", "plain")

    code, text = train(trl_server, case, tmp_path / "durable", "durable", evict="term:5")

    assert code == 75, text
    assert result_of(trl_server, case, tmp_path / "durable", "durable") == undisturbed


def test_a_random_collator_in_workers_is_warned_about(server: ForkServer, tmp_path: Path) -> None:
    for case in ("masked-workers", "workers"):
        code, text = train(server, case, tmp_path / case, "durable")
        assert code == 0, text
        is_random = case == "masked-workers"
        assert ("in worker processes" in text) == is_random, text


def test_kept_workers_that_draw_for_an_evaluation_are_warned_about(
    server: ForkServer, tmp_path: Path
) -> None:
    for case in ("noisy-workers", "kept-workers"):
        code, text = train(server, case, tmp_path / case, "durable")
        assert code == 0, text
        is_noisy = case == "noisy-workers"
        assert text.count("draw from their own copies of the random generators") == is_noisy, text
        assert ("the evaluation will differ" in text) == is_noisy, text
        assert ("The evaluation data set changes dataset.count in worker" in text) == is_noisy, text


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def train_on_ranks(
    server: ForkServer, case: str, folder: Path, mode: str, *, evict: str = ""
) -> tuple[list[int], str]:
    """Two ranks, of which the second one is evicted; returns their exit codes."""
    folder.mkdir(exist_ok=True)
    world = {
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "OMP_NUM_THREADS": "1",
        "RES_OPTIONS": "timeout:1 attempts:1",
    }
    ranks = [
        server.start(
            PROGRAM,
            [case, str(folder), mode],
            folder=folder,
            output=folder / f"output{rank}.txt",
            environ=world
            | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            | {"OUTLAST_TEST_EVICT": evict if rank else ""},
        )
        for rank in range(2)
    ]
    return [rank.wait() for rank in ranks], "\n".join(rank.text() for rank in ranks)


@pytest.mark.parametrize("case", ["mlm-eval-accumulate2", "iterable"])
def test_two_ranks_stop_together_and_end_as_if_undisturbed(
    case: str, server: ForkServer, tmp_path: Path
) -> None:
    codes, text = train_on_ranks(server, case, tmp_path / "plain", "plain")
    assert codes == [0, 0], text

    for step in (2, 5):
        codes, text = train_on_ranks(
            server, case, tmp_path / "durable", "durable", evict=f"term:{step}"
        )
        assert codes == [75, 75], text
    codes, text = train_on_ranks(server, case, tmp_path / "durable", "durable")

    assert codes == [0, 0], text
    plain, durable = (tmp_path / name / "result.json" for name in ("plain", "durable"))
    assert json.loads(durable.read_text()) == json.loads(plain.read_text())


# It starts two launchers with two ranks each, which import the framework.
@pytest.mark.timeout(600)
def test_one_signal_to_exec_around_torchrun_stops_all_ranks_and_they_go_on(
    server: ForkServer, tmp_path: Path
) -> None:
    case, folder = "plain-train-accumulate2", tmp_path / "durable"
    folder.mkdir()
    codes, text = train_on_ranks(server, case, tmp_path / "plain", "plain")
    assert codes == [0, 0], text
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [sys.executable, "-m", "outlast", "exec", "--", sys.executable, *torchrun]
    command += [str(PROGRAM), case, str(folder), "durable"]
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "RES_OPTIONS": "timeout:1 attempts:1"}
    output = folder / "output.txt"

    with output.open("ab") as sink:
        program = subprocess.Popen(
            command,
            stdout=sink,
            stderr=sink,
            env=environ | {"OUTLAST_TEST_EVICT": "notice:4"},
        )
        while not (folder / "reached").exists() and program.poll() is None:
            time.sleep(0.05)
        program.send_signal(signal.SIGTERM)
        assert program.wait() == 75, output.read_text()
        done = subprocess.run(command, stdout=sink, stderr=sink, env=environ)

    assert done.returncode == 0, output.read_text()
    plain = json.loads((tmp_path / "plain" / "result.json").read_text())
    assert json.loads((folder / "result.json").read_text()) == plain


def weights_in(path: Path) -> list[bytes]:
    with np.load(path) as found:
        return [found[name].tobytes() for name in found]


def test_the_program_of_the_page_gives_the_same_weights_after_an_eviction(
    server: ForkServer, tmp_path: Path
) -> None:
    (shown,) = adapted_loops(PAGE.with_name("train-with-hugging-face.md"))
    assert shown.changed_lines <= 5
    before, after = tmp_path / "before.py", tmp_path / "after.py"
    before.write_text(shown.before)
    after.write_text(shown.after)
    (tmp_path / "plain").mkdir()

    def start(program: Path, folder: Path) -> ForkedProgram:
        environ = {"OUTLAST_EXIT_CODE": "75"}
        output = folder / "output.txt"
        output.touch()
        return server.start(program, [str(folder)], folder=tmp_path, output=output, environ=environ)

    assert start(before, tmp_path / "plain").wait() == 0
    for number in range(10):
        folder = tmp_path / f"durable{number}"
        folder.mkdir()
        evicted = start(after, folder)
        while not ("'loss'" in evicted.text() or "Traceback" in evicted.text()):
            time.sleep(0.01)
        evicted.signal(signal.SIGTERM)
        # On a busy machine, it may finish before the signal comes.
        if evicted.wait() != 0:
            break

    assert evicted.wait() == 75, evicted.text()
    assert start(after, folder).wait() == 0
    assert weights_in(folder / "result.npz") == weights_in(tmp_path / "plain" / "result.npz")
