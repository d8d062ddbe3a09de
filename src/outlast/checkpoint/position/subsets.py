"""The parts that a program has split its data into, of which a loader knows only the length.

`random_split` without a seed gives each process other parts, and a run that was resumed with them
would train on data that it had held out. The order of the loader does not show that.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from outlast.checkpoint.position.digest import Digest, encode_indices
from outlast.checkpoint.position.sources import torch_data

_DEPTH_MAX = 5
_PARTS_MAX = 100

OTHER_PART = (
    "the data set is another subset than before, as after random_split without a seed. Seed the "
    "program, or pass random_split a generator"
)


def subset_digest(loader: Any) -> str | None:
    """A digest of the indices in all subsets that a loader reads; None without any."""
    digest = None
    for subset in _subsets(getattr(loader, "dataset", None), 0):
        digest = digest or Digest()
        digest.add(_encoded(subset.indices))
    return None if digest is None else digest.text()


def _subsets(data_set: Any, depth: int) -> Iterator[Any]:
    data = torch_data()
    if data is None or depth > _DEPTH_MAX or not isinstance(data_set, data.Dataset):
        return
    if isinstance(data_set, data.Subset):
        yield data_set
    for item in list(vars(data_set).values()):
        for part in item if isinstance(item, list | tuple) and len(item) < _PARTS_MAX else [item]:
            yield from _subsets(part, depth + 1)


def _encoded(indices: Any) -> bytes:
    if isinstance(indices, range):
        return repr(indices).encode()
    return encode_indices(indices) if type(indices) is list else np.asarray(indices).tobytes()
