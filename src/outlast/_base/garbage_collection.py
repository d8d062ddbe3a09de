"""Keep Python from looking for garbage while thousands of objects are created that are none."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Inside, what is created makes Python look for garbage only once, at the end.

    It would otherwise look at all objects of the program, several times. Other threads are affected
    too, so do not stay inside for long.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
