"""Build the site into build/website: `python -m website`. A warning is an error."""

import os
import subprocess
import sys
from pathlib import Path

from website.pages import ROOT, prepare

CONFIG = ROOT / "zensical.toml"
PAGES = ROOT / "build/website/pages"
HTML = ROOT / "build/website/html"


def build() -> None:
    """Prepare the pages and generate the site.

    Raises `subprocess.CalledProcessError` with the warnings in its `stdout` if there are any.
    """
    prepare(PAGES)
    generator = Path(sys.executable).parent / "zensical"
    command = [str(generator), "build", "--strict", "--clean", "--config-file", str(CONFIG)]
    environ = {**os.environ, "NO_COLOR": "1"}
    subprocess.run(
        command,
        check=True,
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


if __name__ == "__main__":
    try:
        build()
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error.stdout}\nerror: The site has warnings; fix the pages listed above.")
    print(f"Built {HTML.relative_to(ROOT)}/index.html")
