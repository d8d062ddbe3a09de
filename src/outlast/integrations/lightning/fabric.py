"""Training loops with Lightning Fabric: a run over what was set up.

Fabric wraps modules, optimizers and loaders. The modules and optimizers save and load what they
wrap. A loader is tracked inside its wrapper, which only sets the epoch of its sampler and moves
batches to the device.
"""

import os
from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any

from outlast.integrations.lightning.checks import check_scaler, check_strategy, warn_of_schedulers
from outlast.run.run import Run


class FabricRun(Run):
    """An `outlast.Run` whose `batches` takes what `fabric.setup_dataloaders` returns."""

    def __init__(
        self,
        fabric: Any,
        url: str | os.PathLike[str] | None,
        state: MutableMapping[str, Any],
        options: dict[str, Any],
    ) -> None:
        check_strategy(fabric.strategy)
        check_scaler(fabric, state)
        warn_of_schedulers(state)
        self._fabric = fabric
        super().__init__(url, state, **options)

    def batches(
        self, loader: Iterable[Any], *, epochs: int = 1, accumulate: int = 1
    ) -> Iterator[Any]:
        """See `Run.batches`. Moves each batch to the device, as the loader itself would."""
        inner: Any = getattr(loader, "_dataloader", None)
        if inner is None or not hasattr(loader, "_num_iter_calls"):
            yield from super().batches(loader, epochs=epochs, accumulate=accumulate)
            return
        device = getattr(loader, "device", None)
        for batch in super().batches(inner, epochs=epochs, accumulate=accumulate):
            yield batch if device is None else self._fabric.to_device(batch)
