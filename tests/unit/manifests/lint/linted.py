"""Lint texts without files, for tests."""

from pathlib import Path

from outlast.manifests.lint.engine.configuration import LintOptions
from outlast.manifests.lint.engine.files import InputFile
from outlast.manifests.lint.engine.report import Finding, LintReport
from outlast.manifests.linting import FixedFile, LintInputs, examine, examine_and_fix

SPOT_JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: train
spec:
  template:
    spec:
      restartPolicy: Never
      nodeSelector:
        cloud.google.com/gke-spot: "true"
      containers:
        - name: train
          image: registry.example/trainer
"""


def manifest(api_version: str, kind: str, rest: str) -> str:
    """An object of three lines, with `rest` below them."""
    return f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: x}}\n{rest}"


def inputs(*texts: str, options: LintOptions | None = None, **files: str) -> LintInputs:
    """`texts` are files a.yaml, b.yaml and so on; `files` have their name, with _ for the dot."""
    named = {f"{chr(ord('a') + index)}.yaml": text for index, text in enumerate(texts)}
    named |= {name.replace("_", "."): text for name, text in files.items()}
    return LintInputs(
        options=options or LintOptions(),
        files=tuple(
            InputFile(name=name, path=Path(name), data=text.encode())
            for name, text in named.items()
        ),
    )


def report(*texts: str, options: LintOptions | None = None, **files: str) -> LintReport:
    return examine(inputs(*texts, options=options, **files))


def lines(found: LintReport, code: str | None = None) -> list[tuple[str, int]]:
    """The codes and lines of the findings."""
    return [(one.code, one.line) for one in found if code in (None, one.code)]


def only(found: LintReport, code: str) -> Finding:
    (finding,) = [one for one in found if one.code == code]
    return finding


def fixed(text: str, *, unsafe: bool = False, options: LintOptions | None = None) -> str:
    """The text after its fixes."""
    _, files = examine_and_fix(inputs(text, options=options), unsafe=unsafe)
    return files[0].after if files else text


def fixed_files(*texts: str, unsafe: bool = False) -> list[FixedFile]:
    return examine_and_fix(inputs(*texts), unsafe=unsafe)[1]
