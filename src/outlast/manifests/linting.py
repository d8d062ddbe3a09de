"""Lint manifests: find and read the files, run the rules, and make fixes if requested.

The command line and programs call this. Only `write_fixes` writes anything. What few lints need is
imported where it is used, so that linting a file is fast.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from outlast.manifests.lint.engine.baseline import read_baseline, without_known
from outlast.manifests.lint.engine.configuration import LintOptions
from outlast.manifests.lint.engine.files import (
    InputFile,
    collect,
    kustomizations_next_to,
    replace_file,
    settings_of_pools,
)
from outlast.manifests.lint.engine.loading import load, with_patches
from outlast.manifests.lint.engine.report import LintReport
from outlast.manifests.lint.engine.rule import Rule, chosen, find_rule
from outlast.manifests.lint.engine.running import RuleResults, run
from outlast.manifests.lint.errors import LintError, NothingLinted
from outlast.manifests.lint.kubernetes.review import FileFormat, LoadedFile, Review, folder_of
from outlast.manifests.lint.kubernetes.schemas import schemas_for
from outlast.manifests.lint.pools.model import ClusterCapacity, joined
from outlast.manifests.lint.pools.scopes import ClusterScope, ClusterScopes
from outlast.manifests.rules import ALL_RULES
from outlast.yamltext.source import SourceText

if TYPE_CHECKING:
    from outlast.manifests.lint.engine.charts import RenderedChart
    from outlast.manifests.lint.engine.fixing import FixedText
    from outlast.manifests.lint.kustomize.overlays import BuiltOverlays
    from outlast.manifests.lint.view import KubernetesObject

# A fix may reveal another finding. A few rounds are enough, and a bug cannot loop endlessly.
_FIX_ROUNDS_MAX = 10


def lint(
    *paths: str | os.PathLike[str],
    options: LintOptions | None = None,
    read_stdin: Callable[[], bytes] | None = None,
) -> LintReport:
    """Lint files and folders, and standard input for `-`.

    Raises `NothingLinted` if they contain no object and no node pool, and `LintError` for an
    invalid path, option or baseline. What is wrong in a file is a finding.
    """
    inputs = gather(paths, options or LintOptions(), read_stdin=read_stdin)
    return examine(inputs)


@dataclass(frozen=True, kw_only=True, slots=True)
class LintInputs:
    """The files to lint. `pools` are read for their node pools only, `test_data` not at all."""

    options: LintOptions
    files: tuple[InputFile, ...]
    test_data: tuple[InputFile, ...] = ()
    pools: tuple[InputFile, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class FixedFile:
    """A file before and after fixes. `folder` is the one it was found below, None if named."""

    before: SourceText
    after: str
    folder: Path | None = None

    @property
    def diff(self) -> str:
        import difflib

        lines = difflib.unified_diff(
            self.before.text.splitlines(keepends=True),
            self.after.splitlines(keepends=True),
            fromfile=self.before.name,
            tofile=self.before.name,
        )
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in lines
        )


def gather(
    paths: Iterable[str | os.PathLike[str]],
    options: LintOptions,
    *,
    read_stdin: Callable[[], bytes] | None = None,
) -> LintInputs:
    """Find and read the files."""
    given = [os.fspath(path) for path in paths]
    found_files = list(collect(given, exclude=options.exclude, read_stdin=read_stdin))
    files = tuple(found for found in found_files if not found.is_test_data)
    test_data = tuple(found for found in found_files if found.is_test_data)
    if not options.pools:
        return LintInputs(options=options, files=files, test_data=test_data)
    known = {found.path.resolve() for found in files if found.path is not None}
    pools = tuple(
        found
        for found in collect(options.pools)
        if found.path is None or found.path.resolve() not in known
    )
    return LintInputs(options=options, files=files, test_data=test_data, pools=pools)


def examine(inputs: LintInputs) -> LintReport:
    """Run the rules over what was read."""
    return _examined(inputs)[1]


def examine_and_fix(
    inputs: LintInputs, *, unsafe: bool = False
) -> tuple[LintReport, list[FixedFile]]:
    """The remaining findings, and the fixed files. Nothing is written.

    Repeats until there is nothing left to fix, so running it again changes nothing.
    """
    folders = {found.name: found.folder for found in inputs.files}
    links = {found.name for found in inputs.files if found.is_link}
    not_fixed: dict[str, None] = {}
    originals: dict[str, SourceText] = {}
    texts: dict[str, str] = {}
    count = 0
    files, report = _examined(inputs)
    for _ in range(_FIX_ROUNDS_MAX):
        made = _fixes(files, report, unsafe=unsafe)
        not_fixed |= dict.fromkeys(source.name for source, _ in made if source.name in links)
        made = [(source, fixed) for source, fixed in made if source.name not in links]
        if not made:
            break
        for source, fixed in made:
            count += fixed.count
            originals.setdefault(source.name, source)
            texts[source.name] = fixed.text
        inputs = _with_texts(inputs, originals, texts)
        files, report = _examined(inputs)
    notices = (*report.notices, *map(_link_notice, not_fixed))
    changed = [
        FixedFile(before=originals[name], after=texts[name], folder=folders[name])
        for name in originals
    ]
    return replace(report, fixed=count, notices=notices), changed


def _fixes(
    files: Iterable[LoadedFile], report: LintReport, *, unsafe: bool
) -> list[tuple[SourceText, "FixedText"]]:
    """The files with fixes, each with its new text."""
    from outlast.manifests.lint.engine.fixing import fix_file

    made = []
    for file in files:
        findings = [one for one in report if one.fault.place.source is file.source]
        fixed = fix_file(file, findings, unsafe=unsafe)
        if fixed.count:
            made.append((file.source, fixed))
    return made


def _link_notice(name: str) -> str:
    return (
        f"{name}: not fixed, because it is a symbolic link. To fix the file it points to, name "
        "the link on the command line."
    )


def write_fixes(files: Iterable[FixedFile]) -> None:
    """Write the fixed files, each completely or not at all, unless it has changed meanwhile.

    A link is followed only if it was named itself. If killed: some files have their fixes and
    others do not; running it again does the rest.
    """
    for file in files:
        source = file.before
        assert source.path is not None, "standard input cannot be written to"
        replace_file(
            source.path,
            source.to_bytes(file.after),
            expected=source.to_bytes(source.text),
            folder=file.folder,
        )


def _examined(inputs: LintInputs) -> tuple[list[LoadedFile], LintReport]:
    options = inputs.options
    loaded = [load(found) for found in inputs.files]
    charts = _charts(loaded)
    loaded += [_rendered_file(chart) for chart in charts if chart.notice is None]
    neighbors = kustomizations_next_to(
        found.path for found in inputs.files if found.path is not None and found.is_named
    )
    files = with_patches(loaded, (load(found) for found in neighbors))
    overlays = _overlays(files, inputs)
    files = files if overlays is None else list(overlays.files)
    pool_files = [_pool_file(found) for found in inputs.pools]
    read = _with_windows([*files, *(overlays.read_here if overlays else ()), *pool_files])
    scopes = _scopes(read, pool_files, options)
    review = Review(read, schemas=schemas_for(options.kubernetes_version))
    parts = _parts(review, scopes, overlays)
    rules = chosen(ALL_RULES, select=options.select, ignore=options.ignore)
    severities = {find_rule(ALL_RULES, word).code: s for word, s in options.severity.items()}
    outcome = run(review, rules, all_rules=ALL_RULES, severities=severities, parts=parts)
    notices = _test_data_notice(inputs.test_data)
    notices += [chart.notice for chart in charts if chart.notice]
    notices += [*(overlays.notices if overlays else ()), *scopes.notices()]
    return files, _report(files, parts, rules, outcome, options, notices)


def _test_data_notice(files: Sequence[InputFile]) -> list[str]:
    if not files:
        return []
    name = files[0].name
    if len(files) == 1:
        return [f"{name}: skipped, because it is test data. Name it to lint it."]
    return [
        f"{name} and {len(files) - 1} more: skipped, because they are test data. Name their folder "
        "to lint them."
    ]


def _charts(files: Sequence[LoadedFile]) -> "list[RenderedChart]":
    """The Helm charts among the files, rendered if helm is installed."""
    paths = [file.source.path for file in files if file.format is FileFormat.HELM]
    if not paths:
        return []
    from outlast.manifests.lint.engine.charts import render_charts

    return render_charts(path for path in paths if path is not None)


def _rendered_file(chart: "RenderedChart") -> LoadedFile:
    """What helm made of a chart. It has a name but no path, so nothing is fixed in it."""
    name = f"{os.path.relpath(chart.chart)} (helm template)"
    return load(InputFile(name=name, path=None, data=chart.text.encode()))


def _overlays(files: Sequence[LoadedFile], inputs: LintInputs) -> "BuiltOverlays | None":
    """The overlays among the files, None if there are none."""
    if all(file.kustomization is None for file in files):
        return None
    from outlast.manifests.lint.kustomize.overlays import build_overlays

    folders = [
        found.folder or found.path.parent for found in inputs.files if found.path is not None
    ]
    return build_overlays(files, dict.fromkeys(folders))


def _scopes(
    files: Sequence[LoadedFile], pool_files: Sequence[LoadedFile], options: LintOptions
) -> ClusterScopes:
    """What the files say about clusters, by folder; --pools and the options apply everywhere."""
    named = {id(file.source) for file in pool_files}
    own: dict[Path, list[ClusterCapacity]] = {}
    stated = [ClusterCapacity(is_autopilot=options.is_autopilot)]
    for file in files:
        parts = stated if id(file.source) in named else own.setdefault(folder_of(file.source), [])
        parts.append(file.capacity)
    terraform = [file.source for file in files if file.format is FileFormat.TERRAFORM]
    if terraform:
        from outlast.manifests.lint.pools.terraform import read_terraform

        passed = [source for source in terraform if id(source) in named]
        stated += read_terraform(passed).values()
        rest = [source for source in terraform if id(source) not in named]
        for folder, capacity in read_terraform(rest).items():
            own.setdefault(folder, []).append(capacity)
    everywhere = joined(stated)
    if options.is_autopilot is not None:
        everywhere = replace(everywhere, is_autopilot=options.is_autopilot)
    return ClusterScopes({folder: joined(parts) for folder, parts in own.items()}, everywhere)


def _parts(review: Review, scopes: ClusterScopes, overlays: "BuiltOverlays | None") -> list[Review]:
    """A review for each cluster, and one for each overlay."""
    built = overlays.overlays if overlays else ()
    others = [one for overlay in built for one in overlay.objects]
    by_scope: dict[int, tuple[ClusterScope, list[KubernetesObject]]] = {}
    for file in review.files:
        if file.manifests:
            scope = scopes.of(folder_of(file.source))
            by_scope.setdefault(id(scope), (scope, []))[1].extend(file.manifests)
    parts = []
    for scope, subjects in by_scope.values():
        known = {id(one) for one in subjects}
        rest = [one for one in review.manifests if id(one) not in known]
        parts.append(review.part(subjects, others=[*rest, *others], capacity=scope.capacity))
    for overlay in built:
        capacity = scopes.of(overlay.folder).capacity
        parts.append(review.part(overlay.objects, others=review.manifests, capacity=capacity))
    parts += [review.part((), capacity=scope.capacity) for scope in scopes.unused]
    # Rules about the files and pools run even if there is no object.
    return parts or [review.part((), capacity=scopes.of(Path.cwd()).capacity)]


def _report(
    files: Sequence[LoadedFile],
    parts: Sequence[Review],
    rules: tuple[Rule, ...],
    outcome: RuleResults,
    options: LintOptions,
    more_notices: Sequence[str],
) -> LintReport:
    notices = [*(file.notice for file in files if file.notice), *more_notices]
    findings = list(outcome.findings)
    if options.baseline is not None:
        findings, gone = without_known(findings, read_baseline(options.baseline))
        notices += _gone_notice(gone.total())
    objects = sum(len(part.subjects) for part in parts)
    sources = {id(file.source) for file in files}
    # A list of pools in Terraform is one place.
    places = {
        (id(pool.place.source), pool.place.start, pool.name)
        for part in parts
        for pool in part.pools
    }
    pools = sum(source in sources for source, *_ in places)
    # A finding in a --pools file does not count as something linted.
    has_findings = any(id(one.fault.place.source) in sources for one in outcome.findings)
    if not objects and not pools and not has_findings:
        raise NothingLinted(
            "Nothing was linted: no Kubernetes object and no node pool was found.",
            hint=" ".join(notices) or "Check the paths.",
        )
    return LintReport(
        findings=tuple(findings),
        rules=rules,
        files=len(files),
        objects=objects,
        pools=pools,
        ignored=outcome.ignored,
        known=len(outcome.findings) - len(findings),
        notices=tuple(notices),
    )


def _gone_notice(count: int) -> list[str]:
    if not count:
        return []
    one, several = (
        "finding in the baseline no longer occurs",
        "findings in the baseline no longer occur",
    )
    return [f"{count} {one if count == 1 else several}."]


def _pool_file(found: InputFile) -> LoadedFile:
    file = load(found)
    is_known = file.capacity.pools or file.capacity.is_autopilot is not None
    if found.is_named and not is_known and file.format is not FileFormat.TERRAFORM:
        raise LintError(
            f"No node pool was found in {found.name!r}.",
            hint="Pass a gcloud script, a Terraform file, or the JSON output of `gcloud container "
            "node-pools list` or `kubectl get nodes`.",
        )
    return replace(file, manifests=())


def _with_windows(files: Sequence[LoadedFile]) -> list[LoadedFile]:
    """The files, with the windows of their pools from the kubelet settings a script refers to."""
    if not any(pool.config_file for file in files for pool in file.capacity.pools):
        return list(files)
    from outlast.manifests.lint.pools.kubelet import config_paths, with_windows

    documents = {file.source.path: file.reading.documents for file in files if file.source.path}
    named = {path for file in files for path in config_paths(file.capacity)}
    for found in settings_of_pools(named - documents.keys()):
        if found.path is not None:
            documents[found.path] = load(found).reading.documents
    return [replace(file, capacity=with_windows(file.capacity, documents)) for file in files]


def _with_texts(
    inputs: LintInputs, sources: dict[str, SourceText], texts: dict[str, str]
) -> LintInputs:
    def renewed(found: InputFile) -> InputFile:
        if found.name not in texts:
            return found
        return replace(found, data=sources[found.name].to_bytes(texts[found.name]))

    return replace(inputs, files=tuple(renewed(found) for found in inputs.files))
