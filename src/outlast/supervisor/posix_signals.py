"""`signal` without its enumerations: the numbers and system calls that supervising needs.

Importing `signal` takes as long as half of Python's own start, and `outlast exec` must start at
once. Here a signal is a plain number.
"""

# Type checkers know this name without an import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as signal
else:
    try:
        import _signal as signal
    except ImportError:  # not CPython
        import signal  # noqa: F401
