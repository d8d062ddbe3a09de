"""Hugging Face: `durable(trainer, url)` makes a `transformers.Trainer` survive interruptions."""

from outlast.integrations.huggingface.durable import durable
from outlast.integrations.huggingface.export import export

__all__ = ["durable", "export"]
