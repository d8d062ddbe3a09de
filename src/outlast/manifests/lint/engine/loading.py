"""Turn the bytes of a file into objects and node pools, or into what is wrong with the text.

Templates that only become YAML when a tool fills them in (Helm, Jinja, Terraform) are skipped with
a notice.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from outlast.manifests.lint.engine.charts import chart_of
from outlast.manifests.lint.engine.files import (
    JSONNET_ENDINGS,
    SCRIPT_ENDINGS,
    TERRAFORM_ENDINGS,
    InputFile,
    is_kustomization,
)
from outlast.manifests.lint.kubernetes.review import FileFormat, LoadedFile
from outlast.manifests.lint.pools.connector import CONFIG_CONNECTOR, read_config_connector
from outlast.manifests.lint.pools.exports import is_workload, read_export, read_nodes, read_workload
from outlast.manifests.lint.pools.model import ClusterCapacity, joined
from outlast.manifests.lint.view import KubernetesObject
from outlast.yamltext.nodes import Map, Seq, get
from outlast.yamltext.reading import BrokenDocument, YamlContent, read
from outlast.yamltext.source import SourceText, decode

_HELM = re.compile(r"\{\{-?\s*(?:\.(?:Values|Release|Chart|Capabilities|Files)\b|include\s)")
# name: #@ data.values.name
_YTT = re.compile(r"^[^#\n]*\s#@ |^#@ load\(", re.MULTILINE)
# A line that is replaced as a whole, as <ANNOTATIONS> or ${VOLUMES}, or a value that begins with
# {NAME} or {name}.
_PLACE = re.compile(
    r"\s*<[A-Z][A-Z0-9_]*>\s*|\s*\$\{?[A-Z][A-Z0-9_]*\}?\s*|.*:\s+\{[A-Za-z][\w-]*\}.*"
)
# Terraform's directives, which some templates have without .tftpl in their name.
_DIRECTIVE = re.compile(r"%\{~?\s*(?:for|if|else|endif|endfor)\b")
_PERCENT = re.compile(r":\s+%%[A-Z][A-Z0-9_]*%%")
_PATCH_MARK = "$patch"
_PATCH_KEYS = ("patches", "patchesStrategicMerge", "patchesJson6902")
# A patch that no Kustomization here refers to is recognized by its file name.
# A file with the word in its name, or in a folder of that name.
_PATCH_NAME = re.compile(r"(?:^|/)patch(?:es)?/[^/]*$|(?:^|[/_.-])patch(?:es)?[_.-][^/]*$")
# Files of KUTTL and Chainsaw with the fields that a test expects of an object, and overlays in one
# file.
_PARTIAL_NAME = re.compile(r"(?:^|[_.-])(?:assert|errors?|overlay)$")


def load(found: InputFile) -> LoadedFile:
    """The content of one file. Never raises for the content."""
    source, wrong = decode(found.data, name=found.name, path=found.path)
    if wrong is not None:
        reason = f"this is not valid {source.encoding.upper()} text"
        return LoadedFile(source=source, broken=(BrokenDocument(offset=wrong, reason=reason),))
    if _is_script(source):
        # Imported here because most lints have no script.
        from outlast.manifests.lint.pools.gcloud import read_script

        return LoadedFile(source=source, format=FileFormat.SCRIPT, capacity=read_script(source))
    if found.path is not None and found.path.suffix in TERRAFORM_ENDINGS:
        return _terraform(source)
    if found.path is not None and found.path.suffix in JSONNET_ENDINGS:
        return LoadedFile(
            source=source,
            notice=f"{source.name}: skipped, because it is Jsonnet. Lint the output of "
            "`jsonnet -y` instead.",
        )
    if _is_helm(source):
        chart = chart_of(source.path)
        # A chart is rendered as a whole, and has one notice.
        notice = f"{source.name}: skipped, because it is a Helm template." if not chart else None
        return LoadedFile(source=source, format=FileFormat.HELM, notice=notice)
    if _YTT.search(source.text):
        notice = f"{source.name}: skipped, because it is a ytt template. Lint the output of `ytt`."
        return LoadedFile(source=source, notice=notice)
    reading = read(source.text)
    broken = [one for one in reading.broken if not _is_template_at(source, one)]
    file = _sorted_out(source, reading)
    if len(broken) == len(reading.broken):
        return file
    notice = f"{source.name}: skipped a document that is a YAML template."
    notices = [one for one in (file.notice, notice) if one]
    return replace(file, broken=tuple(broken), notice=" ".join(notices))


def _terraform(source: SourceText) -> LoadedFile:
    if "kubernetes_" not in source.text:
        return LoadedFile(source=source, format=FileFormat.TERRAFORM)
    from outlast.manifests.lint.adapted import terraform_objects

    manifests = tuple(terraform_objects(source))
    return LoadedFile(source=source, format=FileFormat.TERRAFORM, manifests=manifests)


def _object(source: SourceText, item: Map) -> KubernetesObject:
    if str(item.get("apiVersion")).startswith("argoproj.io/"):
        from outlast.manifests.lint.adapted import workflow

        if (found := workflow(source, item)) is not None:
            return found
    return KubernetesObject(source, item, is_patch=_PATCH_MARK in item)


def with_patches(files: Iterable[LoadedFile], neighbors: Iterable[LoadedFile]) -> list[LoadedFile]:
    """The files, with objects marked that Kustomize merges into others or completes.

    `neighbors` are Kustomizations that are not linted themselves, but describe the other files.
    """
    listed = list(files)
    bases: set[Path] = set()
    patches: set[Path] = set()
    for file in (*listed, *neighbors):
        if file.kustomization is not None and file.source.path is not None:
            folder = file.source.path.parent
            bases |= set(_named(file.kustomization, folder, "resources", "bases"))
            patches |= set(_named(file.kustomization, folder, *_PATCH_KEYS))
    return [_marked(file, bases, patches) for file in listed]


def _marked(file: LoadedFile, bases: set[Path], patches: set[Path]) -> LoadedFile:
    path = file.source.path
    if path is None:
        return file
    real = path.resolve() if bases or patches else path
    is_patch = real in patches or _is_partial(path)
    # Where no Kustomization can be read, the folder says what completes it.
    is_base = real in bases or path.parent.name == "kustomize"
    if not is_patch and not is_base:
        return file
    marked = (
        KubernetesObject(one.source, one.data, is_patch=is_patch or one.is_patch, is_base=True)
        if one.has_schema
        else one
        for one in file.manifests
    )
    return replace(file, manifests=tuple(marked))


def _is_partial(path: Path) -> bool:
    """Whether a file has only some fields of its objects, according to its name."""
    in_folder = "/".join(path.parts[-2:])
    return bool(_PATCH_NAME.search(in_folder) or _PARTIAL_NAME.search(path.stem))


def _is_script(source: SourceText) -> bool:
    if source.path is not None and source.path.suffix in SCRIPT_ENDINGS:
        return True
    return source.text.startswith("#!") or source.text.lstrip().startswith("gcloud ")


def _is_helm(source: SourceText) -> bool:
    if "{{" not in source.text:
        return False
    if chart_of(source.path) is not None:
        return True
    lines = (line for line in source.text.splitlines() if not line.lstrip().startswith("#"))
    return any("{{" in line and _HELM.search(line) for line in lines)


def _is_template_at(source: SourceText, broken: BrokenDocument) -> bool:
    """Whether a placeholder on this line or the one before made the YAML invalid."""
    line, _ = source.position(broken.offset)
    near = [source.line_text(number) for number in (line - 1, line) if number >= 1]
    signs = ("{{", "{%", "%{", "${") if ".tftpl" in source.name else ("{{", "{%")
    if any(
        _PLACE.fullmatch(text) or _DIRECTIVE.search(text) or _PERCENT.search(text) for text in near
    ):
        return True
    return any(sign in text for text in near for sign in signs)


def _sorted_out(source: SourceText, reading: YamlContent) -> LoadedFile:
    manifests: list[KubernetesObject] = []
    capacities: list[ClusterCapacity] = []
    nodes: list[Map] = []
    kustomization = notice = None
    items = [item for document in reading.documents for item in _items(document)]
    written = [item for item in items if not _is_created(item)]
    for item in written:
        if isinstance(item, Map) and item.get("kind") == "Node" and "spec" in item:
            nodes.append(item)
        elif isinstance(item, Map) and _is_kustomization(source, item):
            kustomization = item
        elif _is_object(item):
            manifests.append(_object(source, item))
            if str(item.get("apiVersion")).startswith(CONFIG_CONNECTOR):
                capacities.append(read_config_connector(source, item))
        elif is_workload(item):
            capacity, notice = read_workload(source, item)
            capacities.append(capacity)
        else:
            capacities.append(read_export(source, item) or ClusterCapacity())
    if nodes:
        capacities.append(read_nodes(source, nodes))
    if len(written) < len(items):
        notice = _created_notice(source, len(items) - len(written))
    return LoadedFile(
        source=source,
        reading=reading,
        manifests=tuple(manifests),
        broken=tuple(reading.broken),
        capacity=joined(capacities),
        kustomization=kustomization,
        notice=notice,
    )


def _items(document: Any) -> Iterator[Any]:
    """The objects in a document: the document itself, or the items of a List."""
    if (
        isinstance(document, Map)
        and str(document.get("kind")).endswith("List")
        and isinstance(document.get("items"), Seq)
    ):
        yield from document["items"]
    else:
        yield document


def _is_object(item: Any) -> bool:
    """Whether it is meant to be an object, even if parts are missing."""
    if not isinstance(item, Map):
        return False
    has_kind, has_version = (isinstance(item.get(key), str) for key in ("kind", "apiVersion"))
    return (has_kind and has_version) or (
        (has_kind or has_version) and isinstance(item.get("metadata"), Map)
    )


def _is_created(item: Any) -> bool:
    """Whether a controller created an object, such as the Pods of a Job, and it was exported."""
    owners = get(item, ("metadata", "ownerReferences"))
    listed = owners if isinstance(owners, Seq) else ()
    return any(isinstance(one, Map) and one.get("controller") is True for one in listed)


def _created_notice(source: SourceText, count: int) -> str:
    if count == 1:
        return f"{source.name}: skipped an object that a controller created. Lint its owner."
    return f"{source.name}: skipped {count} objects that controllers created. Lint their owners."


def _is_kustomization(source: SourceText, item: Map) -> bool:
    if str(item.get("apiVersion")).startswith("kustomize.config.k8s.io/"):
        return True
    # Kustomize needs neither a version nor a kind.
    kind = item.get("kind", "Kustomization")
    return is_kustomization(source.path) and kind in ("Component", "Kustomization")


def _named(kustomization: Map, folder: Path, *keys: str) -> Iterator[Path]:
    """The files that a Kustomization lists under these keys."""
    for key in keys:
        listed = kustomization.get(key)
        for entry in listed if isinstance(listed, Seq) else ():
            path = entry.get("path") if isinstance(entry, Map) else entry
            # A string of several lines is an inline patch.
            if isinstance(path, str) and "\n" not in path and "\0" not in path and path:
                yield (folder / path).resolve()
