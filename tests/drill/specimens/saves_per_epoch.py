"""Saves after each epoch and resumes at the next; nothing handles SIGTERM."""

from tests.drill.specimens.habits import finish, save, saved_step, work

for epoch in range(saved_step(), 12):
    for _ in range(4):
        work()
    print(f"epoch {epoch + 1}/12: loss {1 / (epoch + 1):.3f}")
    save(epoch + 1)
finish()
