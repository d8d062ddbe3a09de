"""Have the main thread do what only it may do, from another thread. Uses CPython's C API.

Loaded only once a program has replaced a handler of an open guard: most never do.
"""

import ctypes
from collections import deque
from collections.abc import Callable

_calls: deque[Callable[[], object]] = deque()


def call_in_main_thread(call: Callable[[], object]) -> None:
    """Have the main thread call this between two of its instructions, like a signal handler."""
    _calls.append(call)
    if ctypes.pythonapi.Py_AddPendingCall(_CALL_ONE, None) != 0:
        # Too many calls are pending. The caller asks again.
        _calls.pop()


def _call_one(_: object) -> int:
    if _calls:
        _calls.popleft()()
    return 0


# Kept by the module, because the interpreter holds no reference to it.
_CALL_ONE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_call_one)
