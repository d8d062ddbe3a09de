"""Keep helper processes alive while their parent finishes its work."""

import os
import signal
import sys
import threading

_NOTICES = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_CHECK_SECONDS = 1.0


def shield_worker(_worker_id: int = 0) -> None:
    """Shield this worker process from signals that are meant for its parent.

    An eviction signals the entire process group, and if a data-loader worker dies first, the
    parent's final save fails. Pass this as `worker_init_fn` of a torch `DataLoader` or as
    `initializer` of a process pool. Signals sent by the parent itself still stop the worker, as
    `terminate()` must, and the shield ends when the parent is gone. Handlers that the worker
    installed are kept. Programs that the worker starts inherit the shield.
    """
    numbers = [
        number
        for number in _NOTICES
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)
    ]
    # Blocked signals stay pending, and only fetching one shows who sent it.
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    threading.Thread(
        target=_sort_signals, args=(numbers, os.getppid()), name="outlast-shield", daemon=True
    ).start()


def _sort_signals(numbers: list[signal.Signals], parent: int) -> None:
    while os.getppid() == parent:
        found = signal.sigtimedwait(numbers, _CHECK_SECONDS)
        if found is not None and found.si_pid == parent:
            if found.si_signo == signal.SIGTERM and _is_data_loader_worker():
                # As torch's own handler does: its parent reports workers that a signal killed.
                os._exit(0)
            # Unblocked in this thread only, which is enough for the signal to act on the process.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
            os.kill(os.getpid(), found.si_signo)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    signal.pause()


def _is_data_loader_worker() -> bool:
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None
