"""Write arrays as a safetensors file, which other tools can read.

Without the safetensors package: the format is a header and bytes, and the arrays may belong to any
library.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from outlast._base.files import replacing
from outlast.checkpoint.errors import CheckpointError
from outlast.checkpoint.state.library import Bytes
from outlast.storage.settings import shared_mode

_NAMES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "<f8": "F64",
    "<f4": "F32",
    "<f2": "F16",
    "<i8": "I64",
    "<i4": "I32",
    "<i2": "I16",
    "|i1": "I8",
    "<u8": "U64",
    "<u4": "U32",
    "<u2": "U16",
    "|u1": "U8",
    "|b1": "BOOL",
}


_RESERVED = "__metadata__"


def write_safetensors(path: Path, arrays: Mapping[str, tuple[str, tuple[int, ...], Bytes]]) -> None:
    """Write the arrays to a file that only its owner can read, unless `OUTLAST_SHARE` is set.

    If killed: the file is complete, or as it was before.
    """
    header: dict[str, object] = {}
    at = 0
    for name, (dtype, shape, data) in arrays.items():
        if name == _RESERVED or not _is_text(name):
            raise CheckpointError(
                f"{name!r} cannot be the name of an array in a safetensors file.",
                hint="Rename the key in the state.",
            )
        if dtype not in _NAMES:
            raise CheckpointError(
                f"{name!r} has the dtype {dtype!r}, which safetensors does not support.",
                hint="Resume the run and export this array yourself.",
            )
        span = [at, at + len(data)]
        header[name] = {"dtype": _NAMES[dtype], "shape": list(shape), "data_offsets": span}
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with replacing(path, mode=shared_mode(0o600)) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, _, data in arrays.values():
            file.write(data.data)


def _is_text(name: str) -> bool:
    """Whether a name can be encoded as UTF-8, unlike half a surrogate pair."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
