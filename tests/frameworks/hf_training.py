"""A training with Hugging Face: `hf_training.py CASE FOLDER [plain|durable]`, a program for tests.

OUTLAST_TEST_EVICT=term:5 sends the signal to the process itself after the fifth step; notice:5
makes FOLDER/reached, and waits there for a notice. OUTLAST_TEST_FORMAT=older saves as the first
version did, without attributes and evaluation data. The result, with a digest of the weights and
all logs, is written to FOLDER/result.json.
"""

import hashlib
import json
import logging
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    DataCollatorForLanguageModeling,
    EarlyStoppingCallback,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    PreTrainedTokenizerFast,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    T5Config,
    T5ForConditionalGeneration,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

WORDS = ["[PAD]", "[MASK]", "[UNK]", "[EOS]", *(f"w{number}" for number in range(60))]


def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({word: n for n, word in enumerate(WORDS)}, "[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    made = PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="[PAD]",
        mask_token="[MASK]",
        unk_token="[UNK]",
        eos_token="[EOS]",
    )
    made.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
    return made


def llama(**changes: Any) -> Any:
    small = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "attention_dropout": 0.1}
    return LlamaForCausalLM(LlamaConfig(vocab_size=64, **small, **heads, **changes))


def bert() -> Any:
    small = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    return BertForMaskedLM(BertConfig(vocab_size=64, num_attention_heads=2, **small))


def texts(count: int) -> list[str]:
    numbers = torch.randint(60, (count, 10)).tolist()
    return [" ".join(f"w{number}" for number in row) for row in numbers]


def tokens(count: int, *, labels: bool = True, varied: bool = False) -> list[dict[str, Any]]:
    lengths = torch.randint(6, 14, (count,)).tolist() if varied else [12] * count
    rows = [torch.randint(4, 64, (length,)) for length in lengths]
    return [{"input_ids": row} | ({"labels": row} if labels else {}) for row in rows]


def arguments(folder: Path, *, kind: Any = TrainingArguments, **changes: Any) -> Any:
    given = {
        "output_dir": str(folder / "output"),
        "per_device_train_batch_size": 2,
        "num_train_epochs": 3,
        "logging_steps": 3,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "use_cpu": True,
        "seed": 5,
    }
    if "RANK" in os.environ:
        given["ddp_backend"] = "gloo"
    return kind(**(given | changes))


def basic(folder: Path, case: str) -> Any:
    """COLLATOR-EVALUATION-ACCUMULATION"""
    collator, evaluation, accumulation = case.split("-")
    changes: dict[str, Any] = {"gradient_accumulation_steps": int(accumulation[-1])}
    if evaluation == "eval":
        changes |= {"eval_strategy": "steps", "eval_steps": 4}
    args = arguments(folder, **changes)
    if collator == "plain":
        data = tokens(22)
        return Trainer(llama(), args, train_dataset=data, eval_dataset=data[:4])
    data = tokens(22, labels=False)
    masking = DataCollatorForLanguageModeling(tokenizer(), seed=3 if collator == "seeded" else None)
    return Trainer(bert(), args, data_collator=masking, train_dataset=data, eval_dataset=data[:4])


def short(folder: Path, epochs: int = 1) -> Any:
    args = arguments(folder, num_train_epochs=epochs, lr_scheduler_type="constant")
    return Trainer(llama(), args, train_dataset=tokens(8))


class Stream(torch.utils.data.IterableDataset[Any]):
    """Has no length, and ends in the middle of a step."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def __iter__(self) -> Any:
        return iter(self.rows)


def iterable(folder: Path) -> Any:
    args = arguments(folder, max_steps=13, gradient_accumulation_steps=2, eval_strategy="epoch")
    return Trainer(llama(), args, train_dataset=Stream(tokens(17)), eval_dataset=tokens(4))


def grouped(folder: Path) -> Any:
    args = arguments(folder, train_sampling_strategy="group_by_length", max_steps=12)
    padding = DataCollatorForLanguageModeling(tokenizer(), mlm=False)
    data = tokens(15, labels=False, varied=True)
    return Trainer(llama(), args, data_collator=padding, train_dataset=data)


def saving(folder: Path) -> Any:
    args = arguments(folder, save_strategy="steps", save_steps=9, gradient_accumulation_steps=2)
    return Trainer(llama(), args, train_dataset=tokens(28))


def workers(folder: Path) -> Any:
    args = arguments(folder, dataloader_num_workers=1, num_train_epochs=2)
    return Trainer(llama(), args, train_dataset=tokens(16))


def masked_workers(folder: Path) -> Any:
    args = arguments(folder, dataloader_num_workers=1, max_steps=2)
    data = tokens(4, labels=False)
    masking = DataCollatorForLanguageModeling(tokenizer())
    return Trainer(bert(), args, data_collator=masking, train_dataset=data)


def stopping(folder: Path) -> Any:
    args = arguments(
        folder,
        eval_strategy="epoch",
        save_strategy="epoch",
        logging_strategy="epoch",
        load_best_model_at_end=True,
        save_total_limit=1,
        metric_for_best_model="eval_loss",
        eval_on_start=True,
        learning_rate=0.2,
        num_train_epochs=9,
    )
    callbacks = [EarlyStoppingCallback(early_stopping_patience=2)]
    data = tokens(8)
    return Trainer(llama(), args, train_dataset=data, eval_dataset=data[:4], callbacks=callbacks)


class OwnFiles(Trainer):  # type: ignore[misc]  # has no types here
    """Writes a file of its own to its checkpoints, and reads it."""

    total = 0.0

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        loss = super().training_step(*args, **kwargs)
        self.total += loss.item()
        return loss

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        folder = Path(self._get_output_dir(trial)) / f"checkpoint-{self.state.global_step}"
        (folder / "own").mkdir()
        (folder / "own" / "total.txt").write_text(self.total.hex())

    def _load_optimizer_and_scheduler(self, checkpoint: Any) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            self.total = float.fromhex((Path(checkpoint) / "own" / "total.txt").read_text())

    def _finalize_training(self, *args: Any, **kwargs: Any) -> Any:
        self.log({"total": self.total})
        return super()._finalize_training(*args, **kwargs)


def files(folder: Path) -> Any:
    # The trainer itself does not save the running loss between two logs.
    args = arguments(folder, logging_steps=1, eval_strategy="epoch")
    data = tokens(16)
    return OwnFiles(llama(), args, train_dataset=data, eval_dataset=data[:4])


class Meter:
    """Of a class of the program's own."""

    def __init__(self) -> None:
        self.total = 0.0
        self.count = 0


class Average(TrainerCallback):  # type: ignore[misc]  # has no types here
    """Keeps what a callback of a user keeps: an average of the weights, a meter, and a list.

    It changes the model when a training and an epoch begin, which must take effect once.
    """

    def __init__(self) -> None:
        self.weights: dict[str, Any] = {}
        self.meter = Meter()
        self.losses: list[float] = []
        self.by_pair: dict[tuple[int, int], float] = {}
        self.epochs = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any, **_: Any) -> None:
        self.weights = {name: one.detach().clone() for name, one in model.named_parameters()}
        torch.nn.init.normal_(model.inner.weight)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, model: Any, **_: Any) -> None:
        self.epochs += 1
        with torch.no_grad():
            model.inner.bias.add_(torch.rand(()))

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any, **_: Any) -> None:
        for name, one in model.named_parameters():
            self.weights[name].data.lerp_(one.detach(), 0.1)
        self.meter.count += 1
        self.by_pair[state.global_step, self.epochs] = 0.0
        if self.meter.count == 9:
            model.inner.bias.requires_grad_(False)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any, **_: Any) -> None:
        self.losses.append(logs.get("loss", 0.0))
        self.meter.total += self.losses[-1]


class OwnModel(torch.nn.Module):
    """Has a buffer that is not saved with it, and an attribute: both change in each step."""

    center: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
        self.register_buffer("center", torch.zeros(4), persistent=False)
        self.temperature = 1.0

    def forward(self, x: Any, labels: Any) -> Any:
        found = self.inner(x)
        self.center.mul_(0.9).add_(found.detach().mean(0))
        self.temperature *= 0.99
        return {"loss": ((found - self.center) / self.temperature - labels).pow(2).mean()}


class OwnTrainer(Trainer):  # type: ignore[misc]  # has no types here
    """Logs at the end what its callback has kept."""

    def _finalize_training(self, *args: Any, **kwargs: Any) -> Any:
        kept = next(one for one in self.callback_handler.callbacks if isinstance(one, Average))
        found = sum(float(one.double().sum()) for one in kept.weights.values())
        self.log({"average": found, "total": kept.meter.total, "count": kept.meter.count})
        self.log({"epochs": kept.epochs, "center": self.model.center.tolist()})
        return super()._finalize_training(*args, **kwargs)


def own(folder: Path) -> Any:
    rows = [{"x": row, "labels": row.flip(0)} for row in torch.randn(8, 4)]
    args = arguments(folder, label_names=["labels"])
    return OwnTrainer(OwnModel(), args, train_dataset=rows, callbacks=[Average()])


CALLS = 0
LOSSES: dict[str, list[float]] = {}
NOISE = np.random.default_rng(6)


class Counting(torch.optim.SGD):
    """An optimizer whose state_dict lacks what it counts and draws from."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, lr=0.1)
        self.calls = 0
        self.generator = torch.Generator().manual_seed(3)

    def step(self, closure: Any = None) -> Any:
        self.calls += 1
        for group in self.param_groups:
            for one in group["params"]:
                one.grad.mul_(torch.rand((), generator=self.generator) / self.calls)
        return super().step(closure)


class Changing(TrainerCallback):  # type: ignore[misc]  # has no types here
    """Draws random numbers, keeps meters in a dict, and changes the arguments."""

    def __init__(self) -> None:
        self.generator = random.Random(4)
        self.meters = {"steps": Meter()}

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any, **_: Any) -> None:
        self.meters["steps"].count += 1
        with torch.no_grad():
            model.inner.bias.add_(self.generator.random() * self.meters["steps"].count)
        if state.global_step == 4:
            args.max_grad_norm = 0.1
            state.logging_steps = 2


class ChangingTrainer(Trainer):  # type: ignore[misc]  # has no types here
    """Its loss depends on global variables, and its loader is not one of accelerate's."""

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        global CALLS
        CALLS += 1
        loss = super().compute_loss(*args, **kwargs)
        LOSSES.setdefault("all", []).append(loss.item())
        return loss * (1 + NOISE.random() / CALLS + np.mean(LOSSES["all"]))

    def get_train_dataloader(self) -> Any:
        data: Any = self.train_dataset
        return torch.utils.data.DataLoader(data, batch_size=2, shuffle=True)


def variables(folder: Path) -> Any:
    rates: list[int] = []

    def rate(step: int) -> float:
        rates.append(step)
        return 1 / len(rates)

    def hook(_module: Any, _inputs: Any, output: Any) -> Any:
        return output * len(rates)

    model = OwnModel()
    model.inner.register_forward_hook(hook)
    optimizer = Counting(model.parameters())
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    rows = [{"x": row, "labels": row.flip(0)} for row in torch.randn(8, 4)]
    args = arguments(folder, label_names=["labels"])
    return ChangingTrainer(
        model, args, train_dataset=rows, callbacks=[Changing()], optimizers=(optimizer, scheduler)
    )


RNG = np.random.default_rng(8)


class NoisyRows(torch.utils.data.Dataset[Any]):
    """Each row is another one each time it is read."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(4)
        self.count = 0

    def __len__(self) -> int:
        return 4

    def __getitem__(self, number: int) -> dict[str, Any]:
        self.count += 1
        row = torch.randint(4, 64, (12,), generator=self.generator)
        return {"input_ids": row.roll(self.count), "labels": row}


def flipping(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Draws from a generator of the program, for training and for evaluation."""
    batch = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
    batch["input_ids"] = (batch["input_ids"] + int(RNG.integers(60))) % 64
    return batch


class OwnOrder(torch.utils.data.Sampler[int]):
    """Takes rows with replacement."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(2)

    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Any:
        return iter(self.generator.integers(4, size=4).tolist())


class DrawingTrainer(Trainer):  # type: ignore[misc]  # has no types here
    """Evaluates in an order of its own, each time in another."""

    order = OwnOrder()

    def _get_eval_sampler(self, eval_dataset: Any) -> Any:
        return self.order


def drawing(folder: Path) -> Any:
    args = arguments(folder, eval_strategy="steps", eval_steps=2)
    data = tokens(8)
    return DrawingTrainer(
        llama(), args, data_collator=flipping, train_dataset=data, eval_dataset=NoisyRows()
    )


def kept_workers(folder: Path, evaluated: Any = None) -> Any:
    kept = {"dataloader_num_workers": 1, "dataloader_persistent_workers": True}
    args = arguments(folder, eval_strategy="steps", eval_steps=2, num_train_epochs=2, **kept)
    evaluated = tokens(4) if evaluated is None else evaluated
    return Trainer(llama(), args, train_dataset=tokens(10), eval_dataset=evaluated)


def noisy_workers(folder: Path) -> Any:
    return kept_workers(folder, NoisyRows())


def sft(folder: Path, **changes: Any) -> Any:
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    args = arguments(folder, kind=SFTConfig, max_length=16, num_train_epochs=2, bf16=False)
    data = Dataset.from_dict({"text": texts(16)})
    return SFTTrainer(llama(), args, train_dataset=data, processing_class=tokenizer(), **changes)


def lora(folder: Path) -> Any:
    from peft import LoraConfig

    adapters = LoraConfig(r=2, target_modules=["q_proj", "v_proj"], lora_dropout=0.1)
    return sft(folder, peft_config=adapters)


def dpo(folder: Path) -> Any:
    from datasets import Dataset
    from trl import DPOConfig, DPOTrainer

    args = arguments(folder, kind=DPOConfig, max_length=32, num_train_epochs=2, bf16=False)
    columns = {name: texts(16) for name in ("prompt", "chosen", "rejected")}
    data, words = Dataset.from_dict(columns), tokenizer()
    return DPOTrainer(llama(), llama(), args, train_dataset=data, processing_class=words)


def reward(folder: Path) -> Any:
    from datasets import Dataset
    from trl import RewardConfig, RewardTrainer

    args = arguments(folder, kind=RewardConfig, max_length=32, num_train_epochs=2, bf16=False)
    data = Dataset.from_dict({name: texts(8) for name in ("chosen", "rejected")})
    config = llama(num_labels=1, pad_token_id=0).config
    model = LlamaForSequenceClassification(config)
    return RewardTrainer(model, args, train_dataset=data, processing_class=tokenizer())


def kto(folder: Path) -> Any:
    from datasets import Dataset
    from trl import KTOConfig, KTOTrainer

    args = arguments(folder, kind=KTOConfig, max_length=32, num_train_epochs=2, bf16=False)
    columns = {"prompt": texts(8), "completion": texts(8), "label": [True, False] * 4}
    data, words = Dataset.from_dict(columns), tokenizer()
    return KTOTrainer(llama(), llama(), args, train_dataset=data, processing_class=words)


def seq2seq(folder: Path) -> Any:
    small = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    model = T5ForConditionalGeneration(T5Config(vocab_size=64, decoder_start_token_id=0, **small))
    changes = {"predict_with_generate": True, "eval_strategy": "epoch", "num_train_epochs": 2}
    args = arguments(folder, kind=Seq2SeqTrainingArguments, generation_max_length=4, **changes)
    data = tokens(8)
    return Seq2SeqTrainer(model, args, train_dataset=data, eval_dataset=data[:2])


def grpo(folder: Path) -> Any:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    args = arguments(
        folder,
        kind=GRPOConfig,
        num_generations=2,
        num_iterations=2,
        steps_per_generation=2,
        max_completion_length=4,
        max_steps=10,
        bf16=False,
        logging_steps=1,
    )

    before: list[float] = []

    def relative(completions: list[str], **_: Any) -> list[float]:
        before.extend(len(one) % 7 for one in completions)
        return [len(one) % 7 - sum(before) / len(before) for one in completions]

    rewards = [relative, NoisyReward()]
    data, words = Dataset.from_dict({"prompt": texts(8)}), tokenizer()
    return GRPOTrainer(llama(), rewards, args=args, train_dataset=data, processing_class=words)


class NoisyReward:
    """An object as a reward."""

    __name__ = "noisy"

    def __init__(self) -> None:
        self.generator = random.Random(2)
        self.count = 0

    def __call__(self, completions: list[str], **_: Any) -> list[float]:
        self.count += 1
        return [self.generator.random() * self.count for _ in completions]


def streaming(folder: Path) -> Any:
    from datasets import IterableDataset

    rows = [{name: one.tolist() for name, one in row.items()} for row in tokens(9)]
    data = IterableDataset.from_generator(lambda: iter(rows)).shuffle(seed=3, buffer_size=4)
    return Trainer(llama(), arguments(folder, max_steps=12), train_dataset=data)


CASES = {
    "short": short,
    "long": lambda folder: short(folder, 3),
    "iterable": iterable,
    "drawing": drawing,
    "kept-workers": kept_workers,
    "noisy-workers": noisy_workers,
    "own": own,
    "variables": variables,
    "streaming": streaming,
    "files": files,
    "grouped": grouped,
    "saving": saving,
    "workers": workers,
    "stopping": stopping,
    "sft": sft,
    "lora": lora,
    "dpo": dpo,
    "grpo": grpo,
    "reward": reward,
    "kto": kto,
    "seq2seq": seq2seq,
    "masked-workers": masked_workers,
}


class Eviction(TrainerCallback):  # type: ignore[misc]  # has no types here
    """Sends a signal to this process after a step, or waits for a notice."""

    def __init__(self, wanted: str, trainer: Any, folder: Path) -> None:
        self.kind, step = wanted.split(":")
        self.step = int(step)
        self.trainer = trainer
        self.folder = folder

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step != self.step:
            return
        if self.kind == "notice":
            (self.folder / "reached").touch()
            while not self.trainer._outlast._run._guard.interrupted:
                time.sleep(0.01)
        else:
            number = {"term": signal.SIGTERM, "kill": signal.SIGKILL}[self.kind]
            os.kill(os.getpid(), number)


def build(case: str, folder: Path) -> Any:
    torch.manual_seed(1)
    return CASES[case](folder) if case in CASES else basic(folder, case)


def write_result(trainer: Any, output: Any, path: Path) -> None:
    weights = hashlib.sha256()
    for name, one in trainer.accelerator.unwrap_model(trainer.model).state_dict().items():
        weights.update(name.encode() + one.numpy().tobytes())
    logs = [
        {name: item for name, item in entry.items() if not _is_time(name)}
        for entry in trainer.state.log_history
    ]
    found = {"weights": weights.hexdigest(), "logs": logs, "loss": output.training_loss}
    path.write_text(json.dumps(found))


def _is_time(name: str) -> bool:
    return name.endswith(("runtime", "per_second", "step_time"))


def save_as_before() -> None:
    from outlast.integrations.huggingface.training import DurableTraining

    read = DurableTraining._read

    def read_less(training: DurableTraining) -> dict[str, Any]:
        found = {name: one for name, one in read(training).items() if name != "evaluation"}
        progress = {name: one for name, one in found["progress"].items() if name != "objects"}
        return found | {"progress": progress}

    DurableTraining._read = read_less  # type: ignore[assignment, method-assign]


def main() -> None:
    case, place, mode, *options = sys.argv[1:]
    folder = Path(place)
    logging.basicConfig(level=logging.INFO)
    trainer = build(case, folder)
    if wanted := os.environ.get("OUTLAST_TEST_EVICT"):
        trainer.add_callback(Eviction(wanted, trainer, folder))
    if mode == "durable":
        from outlast.integrations.huggingface import durable

        if os.environ.get("OUTLAST_TEST_FORMAT") == "older":
            save_as_before()
        durable(trainer, folder / "run", every_steps=2, exit_code=75)
    start = next((option for option in options), None)
    output = trainer.train(resume_from_checkpoint=start)
    if trainer.is_world_process_zero():
        write_result(trainer, output, folder / "result.json")


if __name__ == "__main__":
    main()
