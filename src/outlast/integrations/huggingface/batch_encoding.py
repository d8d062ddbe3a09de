"""Batches of a collator as plain containers, arrays and values, and back."""

from importlib import import_module
from typing import Any

from outlast.checkpoint.errors import UnsupportedState
from outlast.integrations.plain import SCALARS, is_array

# Classes of transformers that collators return: a dict with another name.
_BATCHES = {
    "transformers.tokenization_utils_base.BatchEncoding",
    "transformers.feature_extraction_utils.BatchFeature",
    "transformers.image_processing_base.BatchFeature",
}


def encoded_batch(batch: Any) -> Any:
    """A batch of a collator as plain containers. Raises `UnsupportedState` with what it holds."""
    kind = type(batch)
    if kind in SCALARS or is_array(batch):
        return batch
    if kind is dict:
        return {"dict": [[key, encoded_batch(item)] for key, item in batch.items()]}
    if _name(kind) in _BATCHES:
        # Without what a tokenizer knows of the texts, which no model takes.
        items = [[key, encoded_batch(item)] for key, item in batch.items()]
        return {"class": _name(kind), "dict": items}
    if kind in (list, tuple):
        return {kind.__name__: [encoded_batch(item) for item in batch]}
    raise UnsupportedState(
        f"The data collator returns a {_name(kind)}, which cannot be saved with the batch that was "
        "drawn ahead.",
        hint="Let the collator return dicts, lists and tensors, or pass mode='files' to durable.",
    )


def decoded_batch(saved: Any) -> Any:
    """The batch again."""
    if not isinstance(saved, dict):
        return saved
    if "list" in saved:
        return [decoded_batch(item) for item in saved["list"]]
    if "tuple" in saved:
        return tuple(decoded_batch(item) for item in saved["tuple"])
    items = {key: decoded_batch(item) for key, item in saved["dict"]}
    name = saved.get("class")
    if name is None:
        return items
    if name not in _BATCHES:
        raise ValueError(f"unknown kind of batch: {name!r}")
    module, _, kind = name.rpartition(".")
    return getattr(import_module(module), kind)(items)


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
