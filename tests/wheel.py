"""Try the built wheel as a stranger would: an empty environment, the demo, and a drill.

python -m tests.wheel FOLDER   # tries the wheel in it with the Python that runs this

Prints its size and how long `import outlast` takes. Needs the standard library only.
"""

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

SCRIPT = """
import sys, time
import numpy as np
import outlast
np.random.seed(7)
state = {"weights": np.zeros(100)}
with outlast.Run(f"{sys.argv[1]}/run", state) as run:
    for step in run.steps(200):
        time.sleep(0.01)
        state["weights"] += np.random.rand(100)
np.save(f"{sys.argv[1]}/weights.npy", state["weights"])
"""
INCONCLUSIVE = 4
# Quiet twice: shows errors, but no warning for each index that lacks a package.
QUIETLY = ("--disable-pip-version-check", "--quiet", "--quiet")


def main(folder: Path) -> None:
    (wheel,) = folder.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    check_contents(names)
    print(f"{wheel.name}: {wheel.stat().st_size / 1024:.0f} KiB, {len(names)} files")
    with tempfile.TemporaryDirectory() as place:
        environment = Path(place, "environment")
        venv.create(environment, with_pip=True)
        python = environment / "bin/python"
        run(python, "-m", "pip", *QUIETLY, "install", str(wheel))
        seconds = float(run(python, "-c", _IMPORT))
        print(f"import outlast: {seconds * 1000:.1f} ms")
        try_commands(environment / "bin/outlast", python, Path(place))
    print("The wheel works.")


_IMPORT = """
import time
began = time.perf_counter()
import outlast
print(time.perf_counter() - began)
"""


def check_contents(names: list[str]) -> None:
    """Everything is the package or about it, and it is typed."""
    top = {name.partition("/")[0] for name in names}
    assert len(top) == 2 and "outlast" in top, f"Unexpected in the wheel: {sorted(top)}."
    assert "outlast/py.typed" in names, "The wheel lacks py.typed."


def try_commands(outlast: Path, python: Path, place: Path) -> None:
    print(run(outlast, "--version").strip())
    # Namespaces and /proc, which the drill and the demo need, are Linux's.
    if sys.platform == "linux":
        run(outlast, "demo", "--out", str(place / "demo"))
        (place / "train.py").write_text(SCRIPT)
        drill = [str(outlast), "drill", "--evictions", "2", "--seed", "1"]
        command = [*drill, "--expect", "{dir}/weights.npy", "--", str(python)]
        for _ in range(5):
            done = subprocess.run([*command, str(place / "train.py"), "{dir}"], check=False)
            if done.returncode != INCONCLUSIVE:
                break
        assert done.returncode == 0, f"The drill ended with {done.returncode}."
    else:
        run(python, "-c", SCRIPT, str(place))


def run(*command: str | Path) -> str:
    return subprocess.run(
        [str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True
    ).stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]))
