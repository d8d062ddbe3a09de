"""Prints the epoch and the batch, resumes between batches, and repeats its settings each time."""

from tests.drill.specimens.habits import Notice, finish, save, saved_step, work

notice = Notice()
print("settings: 4 epochs, 10 batches")
for number in range(1, 4):
    print(f"loading part {number} of 3")
for step in range(saved_step(), 40):
    notice.leave_if_given()
    work()
    print(f"epoch {step // 10} batch {step % 10} loss {1 / (step + 1):.4f} ({step * 7 % 5} ms)")
    save(step + 1)
finish()
