"""Lightning: `durable(trainer, url)` lets `trainer.fit` resume by itself, also within an epoch."""

from outlast.integrations.lightning.checks import UnsupportedTraining
from outlast.integrations.lightning.entry import durable, durable_callback

__all__ = ["UnsupportedTraining", "durable", "durable_callback"]
