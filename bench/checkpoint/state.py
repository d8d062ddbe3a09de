"""The state that is saved: a small transformer with Adam, and a frozen one with adapters."""

from collections.abc import Iterable

import torch

Tensors = dict[str, torch.Tensor]
LAYERS = 12
ADAPTERS = 48


def transformer_with_adam(mib: int) -> Tensors:
    """148 parameters with two moments each; at 1024 MiB the largest has 16 MiB, the least 3 KiB."""
    width = max(64, round(768 * (mib / 1024) ** 0.5 / 16) * 16)
    shapes = dict(_shapes(width))
    return {
        f"{part}.{name}": torch.empty(shape).uniform_()
        for part in ("model", "exp_avg", "exp_avg_sq")
        for name, shape in shapes.items()
    }


def adapters_with_adam(mib: int) -> Tensors:
    """The part that changes in the LoRA case: 48 adapters with two moments each."""
    length = mib * 2**20 // 4 // (3 * ADAPTERS) // 16
    return {
        f"{part}.lora.{number}": torch.empty(16, length).uniform_()
        for part in ("model", "exp_avg", "exp_avg_sq")
        for number in range(ADAPTERS)
    }


def equal_tensors(count: int, elements: int) -> Tensors:
    """Many tensors of one size."""
    return {f"model.{number}": torch.empty(elements).uniform_() for number in range(count)}


def mutate(tensors: Tensors) -> None:
    """Change every element in place, as an optimizer does."""
    with torch.no_grad():
        torch._foreach_add_(list(tensors.values()), 1.0)


def size_of(tensors: Tensors) -> int:
    return sum(tensor.nbytes for tensor in tensors.values())


def _shapes(width: int) -> Iterable[tuple[str, tuple[int, ...]]]:
    yield "wte", (16 * 2**20 // 4 // 768, width)
    yield "wpe", (512, width)
    for layer in range(LAYERS):
        for norm in ("ln_1", "ln_2"):
            yield f"h.{layer}.{norm}.weight", (width,)
            yield f"h.{layer}.{norm}.bias", (width,)
        for linear, rows, columns in (
            ("attn", 3 * width, width),
            ("proj", width, width),
            ("up", 4 * width, width),
            ("down", width, 4 * width),
        ):
            yield f"h.{layer}.{linear}.weight", (rows, columns)
            yield f"h.{layer}.{linear}.bias", (rows,)
    yield "ln_f.weight", (width,)
    yield "ln_f.bias", (width,)
