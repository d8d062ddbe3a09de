"""Keeps helper processes alive while their parent finishes its work."""

import signal

_NOTICES = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def shield_worker(_worker_id: int = 0) -> None:
    """Make this worker process outlive the signals that are meant for its parent.

    An eviction signals the whole process group, and a data-loader worker that dies first takes the
    parent's final save with it. Pass this as `worker_init_fn` of a torch `DataLoader` or as
    `initializer` of a process pool. The parent still ends its workers by their queues, and a kill
    still ends them at once. Handlers that the worker installed itself are left alone.
    """
    for number in _NOTICES:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, signal.SIG_IGN)
