"""Uses of `durable` that are refused, and exports: `hf_refusals.py FOLDER`, a program for tests.

Prints one line of JSON for each use: its name, the error's class and its text.
"""

import importlib.metadata
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
from transformers import LlamaForCausalLM, Trainer

from outlast.integrations.huggingface import durable, export
from tests.frameworks.hf_training import arguments, llama, tokens


def trainer(folder: Path, *, model: Any = None, **changes: Any) -> Any:
    args = arguments(folder, max_steps=2, **changes)
    return Trainer(model or llama(), args, train_dataset=tokens(8))


def jit(folder: Path) -> None:
    durable(trainer(folder, enable_jit_checkpoint=True), folder / "jit")


def twice(folder: Path) -> None:
    durable(durable(trainer(folder), folder / "twice"), folder / "twice")


def trained(folder: Path) -> None:
    used = trainer(folder)
    used.train()
    durable(used, folder / "trained")


def again(folder: Path) -> None:
    used = durable(trainer(folder), folder / "again")
    used.train()
    used.train()


def other_model(folder: Path) -> None:
    durable(trainer(folder), folder / "model").train()
    durable(trainer(folder, model=llama(tie_word_embeddings=True)), folder / "model").train()


def other_arguments(folder: Path) -> None:
    """Not refused, but named."""
    durable(trainer(folder), folder / "arguments").train()
    durable(trainer(folder, learning_rate=0.5), folder / "arguments").train()


def other_optimizer(folder: Path) -> None:
    durable(trainer(folder, optim="adafactor"), folder / "arguments").train()


def other_accumulation(folder: Path) -> None:
    durable(trainer(folder, gradient_accumulation_steps=2), folder / "arguments").train()


def other_thing(folder: Path) -> None:
    durable(llama(), folder / "thing")


def unknown_option(folder: Path) -> None:
    durable(trainer(folder), folder / "option", every_step=3)  # type: ignore[call-arg]  # the point


def unknown_mode(folder: Path) -> None:
    durable(trainer(folder), folder / "mode", mode="fast")


def no_place(folder: Path) -> None:
    durable(trainer(folder))


def unknown_version(folder: Path) -> None:
    with patch("importlib.metadata.version", lambda _: "5.99.0"):
        durable(trainer(folder), folder / "version")


def unknown_trl(folder: Path) -> None:
    installed = importlib.metadata.version
    kind = type("SFTTrainer", (Trainer,), {"__module__": "trl.trainer.sft_trainer"})
    made = kind(llama(), arguments(folder, max_steps=2), train_dataset=tokens(8))

    def version(package: str) -> str:
        return "1.99.0" if package == "trl" else installed(package)

    with patch("importlib.metadata.version", version):
        durable(made, folder / "trl")


def exported(folder: Path) -> None:
    """Not refused: what was trained can be read again."""
    made = durable(trainer(folder), folder / "exported")
    made.train()
    other = trainer(folder, model=llama())
    export(other, folder / "pretrained", folder / "exported")
    read = LlamaForCausalLM.from_pretrained(folder / "pretrained")
    pairs = zip(made.model.state_dict().items(), read.state_dict().items(), strict=True)
    assert all(a[0] == b[0] and torch.equal(a[1], b[1]) for a, b in pairs)


def other_export(folder: Path) -> None:
    tied = trainer(folder, model=llama(hidden_act="gelu", head_dim=4))
    export(tied, folder / "pretrained", folder / "exported")


CASES: list[Callable[[Path], None]] = [
    jit,
    twice,
    trained,
    again,
    other_model,
    other_arguments,
    other_optimizer,
    other_accumulation,
    other_thing,
    unknown_option,
    unknown_mode,
    no_place,
    unknown_version,
    unknown_trl,
    exported,
    other_export,
]

if __name__ == "__main__":
    for case in CASES:
        try:
            case(Path(sys.argv[1]))
            found = {"kind": "", "text": ""}
        except Exception as error:
            found = {"kind": type(error).__name__, "text": str(error)}
        print(json.dumps({"case": case.__name__, **found}), flush=True)
