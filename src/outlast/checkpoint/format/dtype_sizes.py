"""How many bytes an item of each dtype has, also of libraries that are not installed here."""

import sys

import numpy as np

from outlast.checkpoint.format.validation import InvalidManifest, short
from outlast.checkpoint.state.arrays import LIBRARIES, dtype_named, dtype_text, library_named

DTYPE_CHARACTERS_MAX = 64 * 1024

# The names that torch, JAX and ml_dtypes use: a checkpoint can be checked without them.
BYTES_BY_NAME = {
    **dict.fromkeys(("bool", "bit", "bits8", "bits1x8", "bits2x4", "bits4x2"), 1),
    **dict.fromkeys((f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 9)), 1),
    **{f"{sign}int{bits}": bits // 8 for sign in ("", "u") for bits in (16, 32, 64)},
    **{f"float{bits}": bits // 8 for bits in (16, 32, 64)},
    **{f"complex{bits}": bits // 8 for bits in (32, 64, 128)},
    "bfloat16": 2,
    "bits16": 2,
    "bcomplex32": 4,
    "float4_e2m1fn_x2": 1,
    **dict.fromkeys(("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e3m4"), 1),
    **dict.fromkeys(("float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"), 1),
    **dict.fromkeys(("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"), 1),
}


def item_bytes(library: str, dtype: str) -> int:
    """The size of an item of this dtype. The library need not be installed."""
    if library not in {known.name for known in LIBRARIES}:
        raise InvalidManifest(f"{short(library)} is not a library that this version supports")
    if len(dtype) <= DTYPE_CHARACTERS_MAX:
        found = _numpy_bytes(dtype) if library == "numpy" else BYTES_BY_NAME.get(dtype)
        if found is None and library != "numpy":
            found = _library_bytes(library, dtype)
        if found is not None:
            return found
    raise InvalidManifest(f"{short(dtype)} is not a known dtype of {library}")


def _numpy_bytes(dtype: str) -> int | None:
    """None if NumPy has no such dtype, or a save would have spelled it differently."""
    try:
        found = dtype_named(dtype)
        is_own = not found.hasobject and (dtype.startswith("[") or dtype_text(found) == dtype)
    except Exception:
        # For nonsense, the parsers of NumPy and Python raise all sorts of errors. They also do so
        # for dtypes of packages that are not loaded, which are known by name.
        return BYTES_BY_NAME.get(dtype)
    return found.itemsize if is_own else None


def _library_bytes(library: str, dtype: str) -> int | None:
    """The size of a dtype that is newer than the table above, if the library is installed."""
    if not dtype.isidentifier() or library_named(library) is None:
        return None
    if library == "torch":
        torch = sys.modules["torch"]
        found = getattr(torch, dtype, None)
        return found.itemsize if isinstance(found, torch.dtype) else None
    try:
        return np.dtype(dtype).itemsize
    except TypeError:
        return None
