"""How fast a node writes a checkpoint, if this was not measured: by machine type and store.

Cloud Storage, through its API or mounted: Google's benchmark of Cloud Storage FUSE 3.4.3
(github.com/GoogleCloudPlatform/gcsfuse, docs/benchmarks.md, read on 2026-11-18) wrote files of
1 GiB sequentially at 4.62 GB/s from a c4-standard-192, which is 24 MB/s per vCPU. Uploading takes
CPU time, so a smaller machine is assumed to be slower in proportion. No machine is assumed to write
more than 2.5 GB/s, an estimate: the benchmark wrote 96 files at once, a checkpoint has fewer parts.
For a volume claim, whose class is unknown, and for an unknown machine, it is a cautious guess.
"""

from outlast.capacity.machine_sizes import machine_size
from outlast.capacity.vocabulary import StorageKind

CAUTIOUS_BYTES_PER_SECOND = 100e6
_BYTES_PER_SECOND_AND_VCPU = 24e6
_BYTES_PER_SECOND_MAX = 2.5e9


def save_bytes_per_second(machine: str, storage: StorageKind) -> float:
    """The assumed rate of one node."""
    size = machine_size(machine)
    if size is None or storage is StorageKind.CLAIM:
        return CAUTIOUS_BYTES_PER_SECOND
    rate = min(size.vcpus * _BYTES_PER_SECOND_AND_VCPU, _BYTES_PER_SECOND_MAX)
    return max(rate, CAUTIOUS_BYTES_PER_SECOND)
