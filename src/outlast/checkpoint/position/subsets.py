"""The parts that a program has split its data into, of which a loader knows only the length.

`random_split` without a seed gives each process other parts, and a run that was resumed with them
would train on data that it had held out. The order of the loader does not show that.
"""

from collections.abc import Iterator
from typing import Any

from outlast.checkpoint.position.digest import Digest, encode_indices
from outlast.checkpoint.position.sources import torch_data

_PARTS_MAX = 100

OTHER_PART = (
    "the data set is another subset than before, as after random_split without a seed. Seed the "
    "program, or pass random_split a generator"
)


def subset_digest(loader: Any) -> str | None:
    """A digest of the indices in all subsets that a loader reads; None without any."""
    digest = None
    for subset in _subsets(getattr(loader, "dataset", None)):
        indices = subset.indices
        numbers = indices.tolist() if hasattr(indices, "tolist") else list(indices)
        digest = digest or Digest()
        digest.add(encode_indices(numbers))
    return None if digest is None else digest.text()


def _subsets(data_set: Any) -> Iterator[Any]:
    """The subsets in a data set, which may have others inside."""
    data = torch_data()
    waiting: list[Any] = [data_set]
    # A list that grows while it is gone through: each data set once.
    known: list[Any] = []
    for item in waiting:
        if data is None or not isinstance(item, data.Dataset) or any(item is one for one in known):
            continue
        known.append(item)
        if isinstance(item, data.Subset):
            yield item
        for part in list(vars(item).values()):
            is_short = isinstance(part, list | tuple) and len(part) <= _PARTS_MAX
            waiting += part if is_short else [part]
