"""Computes in two worker processes, saves every step and resumes, but prints nothing."""

import multiprocessing
import time

from tests.drill.specimens.habits import STEPS, Notice, finish, save, saved_step


def compute(_: int) -> None:
    until = time.process_time() + 0.02
    while time.process_time() < until:
        pass


if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        notice = Notice()
        for step in range(saved_step(), 3 * STEPS):
            notice.leave_if_given()
            pool.map(compute, range(2))
            save(step + 1)
    finish()
