"""Children of a guarded process: who dies of the group's SIGTERM, and who is told."""

import contextlib
import os
import signal
from pathlib import Path

import pytest

from outlast.checkpoint.runs.catalog import manifest_names
from outlast.storage import open_store
from tests.patience import eventually
from tests.programs import python

IN_A_POD = {"KUBERNETES_SERVICE_HOST": "127.0.0.1"}

POOL = """
    import multiprocessing, os, sys, time, outlast

    def work(number):
        time.sleep(0.3)
        return number * number

    if __name__ == "__main__":
        with outlast.Guard() as guard:
            context = multiprocessing.get_context(sys.argv[1])
            shield = outlast.shield_worker if sys.argv[2] == "shielded" else None
            with context.Pool(2, initializer=shield) as pool:
                pool.map(work, [0, 0])
                print("ready")
                guard.wait()
                answer = pool.map_async(work, [3, 4])
                print("flushed", answer.get(timeout=60))
        sys.exit(guard.exit_code)
"""


def test_shielded_workers_serve_their_parent_until_it_is_done() -> None:
    with python(POOL, "fork", "shielded", env=IN_A_POD) as program:
        program.wait_for("ready")
        program.signal_group(signal.SIGTERM)

        assert program.wait() == 75
        assert "flushed [9, 16]" in program.output


def test_a_signal_to_a_forked_child_is_no_notice_to_its_parent() -> None:
    """Not even at the very moment of the fork, when the child still has the parent's handlers."""
    source = """
        import os, signal, sys, time, outlast
        with outlast.Guard() as guard:
            for attempt in range(30):
                child = os.fork()
                if child == 0:
                    time.sleep(60)
                os.kill(child, signal.SIGTERM)
                _, status = os.waitpid(child, 0)
                assert os.WTERMSIG(status) == signal.SIGTERM
            print("parent heard", guard.wait(0.3))
    """
    with python(source) as program:
        assert program.wait() == 0, program.output
        assert "parent heard False" in program.output


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_shielded_worker_still_obeys_its_parent(method: str) -> None:
    """A pool ends its workers by SIGTERM: shielded from that too, it would wait for ever."""
    source = """
        import multiprocessing, sys, outlast

        if __name__ == "__main__":
            context = multiprocessing.get_context(sys.argv[1])
            for _ in range(8 if sys.argv[1] == "fork" else 2):
                with context.Pool(3, initializer=outlast.shield_worker) as pool:
                    assert pool.map(abs, range(-10, 0)) == list(range(10, 0, -1))
            print("all pools ended")
    """
    with python(source, method) as program:
        program.wait_for("all pools ended")
        assert program.wait() == 0


def test_a_worker_whose_parent_is_gone_is_shielded_no_longer() -> None:
    source = """
        import os, signal, time, outlast
        reader, writer = os.pipe()
        if os.fork() == 0:
            outlast.shield_worker()
            print("worker", os.getpid())
            os.write(writer, b"!")
            while True:
                time.sleep(0.1)
        os.read(reader, 1)
    """

    def has_ended() -> bool:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(worker, signal.SIGTERM)
            return "Z" in Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2][:3]
        return True

    with python(source) as program:
        worker = int(program.wait_for("worker").split()[1])
        program.wait()

        eventually(has_ended, "the worker ends")


def test_a_forked_child_can_open_a_guard_of_its_own() -> None:
    source = """
        import os, signal, sys, outlast
        with outlast.Guard() as guard:
            child = os.fork()
            if child == 0:
                with outlast.Guard() as own:
                    os.kill(os.getpid(), signal.SIGTERM)
                    print("child heard", own.wait(60))
                    os._exit(0)
            os.waitpid(child, 0)
            print("parent heard", guard.wait(0.2))
    """
    with python(source) as program:
        assert program.wait() == 0
        assert "child heard True" in program.output
        assert "parent heard False" in program.output


LOADER = """
    import sys, time, torch, outlast

    class Numbers(torch.utils.data.Dataset):
        def __len__(self): return 64
        def __getitem__(self, index):
            time.sleep(0.02)
            return torch.tensor(index)

    with outlast.Guard() as guard:
        shield = outlast.shield_worker if sys.argv[1] == "shielded" else None
        loader = torch.utils.data.DataLoader(Numbers(), num_workers=2, worker_init_fn=shield)
        total = 0
        for step, batch in enumerate(loader):
            total += int(batch)
            if step == 5:
                print("ready")
                guard.wait()
                time.sleep(0.3)
        print("flushed", total)
    sys.exit(guard.exit_code)
"""


@pytest.mark.needs("torch")
def test_shielded_data_loader_workers_do_not_take_the_final_save_with_them() -> None:
    with python(LOADER, "shielded", env=IN_A_POD) as program:
        program.wait_for("ready")
        program.signal_group(signal.SIGTERM)

        assert program.wait() == 75
        assert f"flushed {sum(range(64))}" in program.output


@pytest.mark.needs("torch")
def test_without_the_shield_the_group_s_sigterm_kills_the_workers_and_the_epoch() -> None:
    """The reason for the shield: if this ever passes without it, the shield can go."""
    with python(LOADER, "bare", env=IN_A_POD) as program:
        program.wait_for("ready")
        program.signal_group(signal.SIGTERM)

        assert program.wait() == 1
        assert "killed by signal: Terminated" in program.output


@pytest.mark.needs("torch")
def test_a_shielded_data_loader_worker_that_its_parent_ends_has_not_failed() -> None:
    """Else the parent raises that a worker was killed, in the middle of whatever it does."""
    source = """
        import torch, outlast
        options = {"num_workers": 2, "worker_init_fn": outlast.shield_worker}
        batches = iter(torch.utils.data.DataLoader(range(1000), **options))
        assert [int(next(batches)) for _ in range(4)] == [0, 1, 2, 3]
        workers = batches._workers
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join()
        print("ended with", [worker.exitcode for worker in workers])
    """
    with python(source) as program:
        assert program.wait() == 0, program.output
        assert "ended with [0, 0]" in program.output


BATCHES = """
    import sys, torch, outlast

    class Numbers(torch.utils.data.Dataset):
        def __len__(self): return 64
        def __getitem__(self, index): return torch.tensor(index)

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            info = torch.utils.data.get_worker_info()
            return iter(torch.arange(64)[info.id :: info.num_workers])

    def hello(worker):
        print("hello from", worker)

    kind, url = sys.argv[1:]
    if kind == "stateful":
        import warnings
        warnings.simplefilter("ignore")
        from torchdata.stateful_dataloader import StatefulDataLoader as Loader
    else:
        Loader = torch.utils.data.DataLoader
    data = Stream() if kind == "stream" else Numbers()
    loader = Loader(data, batch_size=1, num_workers=2, worker_init_fn=hello)

    state = {"total": 0}
    with outlast.Run(url, state) as run:
        # Saved after every 32 batches only, of which the workers have loaded a few ahead.
        for batch in run.batches(loader, accumulate=32):
            state["total"] += int(batch)
            if run.step == 5:
                assert loader.worker_init_fn is hello
                print("ready")
                run.guard.wait()
"""


@pytest.mark.needs("torch")
@pytest.mark.parametrize("kind", ["indices", "stream", "stateful"])
def test_batches_shield_the_workers_of_their_loader(kind: str, tmp_path: Path) -> None:
    env = {**IN_A_POD, "OUTLAST_GRACE_SECONDS": "600"}
    with python(BATCHES, kind, str(tmp_path / "run"), env=env) as program:
        program.wait_for("ready")
        program.signal_group(signal.SIGTERM)

        assert program.wait() == 75, program.output
        # The program's own function is called too.
        assert "hello from 0" in program.output
        assert "hello from 1" in program.output
    newest = manifest_names(open_store(str(tmp_path / "run")))[0]
    assert "/000000000032-" in newest, newest
