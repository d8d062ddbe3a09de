"""Overlays as text, each with the output of `kubectl kustomize` that was recorded for it.

A case is a file with sections: `=== overlay/kustomization.yaml` starts a file, and the last one,
`=== expected`, is the recorded output. To record all of them again:

    python -m tests.unit.manifests.lint.kustomize_cases KUBECTL
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parents[3] / "fixtures" / "kustomize"
EXPECTED = "expected"


def sections(case: Path) -> dict[str, str]:
    """The texts of a case by their path."""
    parts = re.split(r"^=== (\S+)[^\n]*\n", case.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def unpack(case: Path, folder: Path) -> Path:
    """Write the files of a case. The result is the folder of its overlay."""
    for name, text in sections(case).items():
        if name != EXPECTED:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return folder / "overlay"


def _record(kubectl: str) -> None:
    version = subprocess.run([kubectl, "version", "--client"], capture_output=True, text=True)
    label = ", ".join(version.stdout.split("\n")[:2])
    for case in sorted(FOLDER.glob("*.txt")):
        with tempfile.TemporaryDirectory() as folder:
            overlay = unpack(case, Path(folder))
            built = subprocess.run(
                [kubectl, "kustomize", str(overlay)], capture_output=True, text=True, check=False
            )
        if built.returncode:
            print(f"{case.name}: {built.stderr}")
            continue
        own = case.read_text().partition(f"=== {EXPECTED}")[0]
        case.write_text(f"{own}=== {EXPECTED} ({label})\n{built.stdout}")


if __name__ == "__main__":
    _record(sys.argv[1])
