"""Volumes of a Pod, mounts of its containers, and claims."""

from collections.abc import Callable
from typing import Any

from outlast.manifests.lint.validation.metadata import (
    check_annotations,
    check_labels,
    check_selector,
)
from outlast.manifests.lint.validation.names import (
    LABEL_HINT,
    NAME_HINT,
    label_problem,
    name_problem,
)
from outlast.manifests.lint.validation.quantities import is_quantity, quantity
from outlast.manifests.lint.validation.refusal import (
    Reason,
    Refusal,
    Refusals,
    choice,
    duplicate,
    forbidden,
    invalid,
    listed,
    mapping,
    mappings,
    number,
    required,
    shown,
    text,
    unsupported,
)
from outlast.manifests.lint.validation.resources import malformed_quantity
from outlast.yamltext.nodes import Path

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_HOST_PATHS = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace")
_FIELDS_OF_VOLUMES = (*_FIELDS, "metadata.uid")
_MODE_MAX = 0o777
_TOKEN_SECONDS_MIN, _TOKEN_SECONDS_MAX = 600, 1 << 32
_BLOCK_SOURCES = ("persistentVolumeClaim", "ephemeral")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")


def check_volumes(spec: Any, at: Path) -> Refusals:
    """The volumes of a Pod."""
    seen: set[str] = set()
    for index, volume in mappings(spec, "volumes"):
        path: Path = (*at, "volumes", index)
        name = text(volume, "name")
        if not name:
            yield required((*path, "name"), "the volume has no name")
        elif problem := label_problem(name):
            yield invalid((*path, "name"), problem, LABEL_HINT)
        if name and name in seen:
            yield duplicate((*path, "name"), name, "Rename one of the volumes, or remove it.")
        seen.add(name)
        yield from _source(volume, path)


def _source(volume: dict[str, Any], at: Path) -> Refusals:
    kinds = [key for key, value in volume.items() if key != "name" and value is not None]
    # A volume without a type is an emptyDir.
    for extra in sorted(kinds, key=_order)[1:]:
        yield forbidden((*at, extra), "a volume has one type", "Make two volumes of it.")
    for kind in kinds:
        check = _SOURCES.get(kind)
        if check is not None and isinstance(volume[kind], dict):
            yield from check(volume[kind], (*at, kind))


def _order(kind: str) -> int:
    """The server takes the first type in its own order and forbids the others."""
    known = (
        "emptyDir", "hostPath", "gcePersistentDisk", "secret", "nfs", "persistentVolumeClaim",
        "downwardAPI", "configMap", "projected", "csi", "ephemeral", "image",
    )  # fmt: skip
    return known.index(kind) if kind in known else len(known)


def _empty_dir(source: dict[str, Any], at: Path) -> Refusals:
    size = source.get("sizeLimit")
    if not is_quantity(size):
        yield malformed_quantity(str(size), (*at, "sizeLimit"))
    elif (amount := quantity(size)) is not None and amount < 0:
        yield forbidden((*at, "sizeLimit"), f"{size!r} is negative")


def _host_path(source: dict[str, Any], at: Path) -> Refusals:
    path = text(source, "path")
    if not path:
        yield required((*at, "path"), "the path on the node is missing")
    elif ".." in path.split("/"):
        yield invalid((*at, "path"), f"{path!r} contains '..'")
    yield from choice(source, "type", at, _HOST_PATHS)


def _secret(source: dict[str, Any], at: Path) -> Refusals:
    yield from _named(source, "secretName", at)
    yield from _files(source, at)


def _config_map(source: dict[str, Any], at: Path) -> Refusals:
    yield from _named(source, "name", at)
    yield from _files(source, at)


def _claim(source: dict[str, Any], at: Path) -> Refusals:
    yield from _named(source, "claimName", at)


def _nfs(source: dict[str, Any], at: Path) -> Refusals:
    yield from _named(source, "server", at)
    path = text(source, "path")
    if not path:
        yield required((*at, "path"), "the exported path is missing")
    elif not path.startswith("/"):
        yield invalid((*at, "path"), f"{path!r} is not an absolute path")


def _csi(source: dict[str, Any], at: Path) -> Refusals:
    driver = text(source, "driver")
    if not driver:
        yield required((*at, "driver"), "the driver is missing")
    elif problem := name_problem(driver.lower()):
        yield invalid((*at, "driver"), problem, NAME_HINT)


def _image(source: dict[str, Any], at: Path) -> Refusals:
    yield from _named(source, "reference", at)
    yield from choice(source, "pullPolicy", at, ("Always", "IfNotPresent", "Never"))


def _ephemeral(source: dict[str, Any], at: Path) -> Refusals:
    template = mapping(source, "volumeClaimTemplate")
    path = (*at, "volumeClaimTemplate")
    if not template:
        yield required(path, "the claim's template is missing")
        return
    metadata = mapping(template, "metadata")
    yield from check_labels(metadata, "labels", (*path, "metadata"))
    yield from check_annotations(metadata, (*path, "metadata"))
    for key in metadata:
        if key not in ("labels", "annotations"):
            yield forbidden((*path, "metadata", key), "only labels and annotations can be set")
    yield from check_claim(mapping(template, "spec"), (*path, "spec"))


def _downward(source: dict[str, Any], at: Path) -> Refusals:
    yield from _mode(source, "defaultMode", at)
    for index, item in mappings(source, "items"):
        yield from _downward_file(item, (*at, "items", index))


def _downward_file(item: dict[str, Any], at: Path) -> Refusals:
    yield from _path_in_volume(item, at)
    yield from _mode(item, "mode", at)
    field = mapping(item, "fieldRef")
    has_resource = isinstance(item.get("resourceFieldRef"), dict)
    if not field and not has_resource:
        yield required(at, "one of fieldRef and resourceFieldRef is needed")
    elif field and has_resource:
        yield invalid(at, "only one of fieldRef and resourceFieldRef can be set")
    wanted = text(field, "fieldPath")
    if field and wanted.partition("[")[0] not in _FIELDS_OF_VOLUMES:
        yield unsupported((*at, "fieldRef", "fieldPath"), wanted, _FIELDS_OF_VOLUMES)


def _projected(source: dict[str, Any], at: Path) -> Refusals:
    yield from _mode(source, "defaultMode", at)
    taken: set[str] = set()
    for index, part in mappings(source, "sources"):
        path: Path = (*at, "sources", index)
        kinds = [key for key, value in part.items() if value is not None]
        for extra in kinds[1:]:
            yield forbidden((*path, extra), "a source has one type")
        if not kinds:
            yield required(path, "the source has no type")
        yield from _projected_source(part, path)
        for kind in kinds:
            for _, item in mappings(mapping(part, kind), "items"):
                name = text(item, "path")
                if name and name in taken:
                    yield invalid(at, f"two sources write the file {name!r}")
                taken.add(name)


def _projected_source(part: dict[str, Any], at: Path) -> Refusals:
    for kind in ("secret", "configMap"):
        if isinstance(part.get(kind), dict):
            yield from _named(part[kind], "name", (*at, kind))
            yield from _files(part[kind], (*at, kind))
    for index, item in mappings(mapping(part, "downwardAPI"), "items"):
        yield from _downward_file(item, (*at, "downwardAPI", "items", index))
    token = part.get("serviceAccountToken")
    if isinstance(token, dict):
        path = (*at, "serviceAccountToken")
        seconds = number(token, "expirationSeconds")
        if seconds is not None and not _TOKEN_SECONDS_MIN <= seconds <= _TOKEN_SECONDS_MAX:
            yield invalid(
                (*path, "expirationSeconds"), f"{seconds} s is not between 10 minutes and 2^32 s"
            )
        yield from _path_in_volume(token, path)


def _named(source: dict[str, Any], key: str, at: Path) -> Refusals:
    if not text(source, key) and source.get(key) in (None, ""):
        yield required((*at, key), "the name is missing")


def _files(source: dict[str, Any], at: Path) -> Refusals:
    yield from _mode(source, "defaultMode", at)
    for index, item in mappings(source, "items"):
        path: Path = (*at, "items", index)
        if not text(item, "key"):
            yield required((*path, "key"), "the key is missing")
        yield from _path_in_volume(item, path)
        yield from _mode(item, "mode", path)


def _path_in_volume(item: dict[str, Any], at: Path) -> Refusals:
    path = text(item, "path")
    if not path:
        yield required((*at, "path"), "the path in the volume is missing")
    else:
        yield from _descending(path, (*at, "path"))
        if path.startswith("..") and not path.startswith("../"):
            yield invalid((*at, "path"), f"{path!r} starts with '..'")


def _descending(value: str, at: Path) -> Refusals:
    if value.startswith("/"):
        yield invalid(at, f"{value!r} is not a relative path")
    if ".." in value.split("/"):
        yield invalid(at, f"{value!r} contains '..'")


def _mode(source: dict[str, Any], key: str, at: Path) -> Refusals:
    mode = number(source, key)
    if mode is not None and not 0 <= mode <= _MODE_MAX:
        yield invalid(
            (*at, key),
            f"{mode} is not a file mode between 0 and 511 (0777 in octal)",
            "Write it in octal with a leading zero, such as 0644.",
        )


_SOURCES: dict[str, Callable[[dict[str, Any], Path], Refusals]] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "secret": _secret,
    "configMap": _config_map,
    "persistentVolumeClaim": _claim,
    "nfs": _nfs,
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
    "downwardAPI": _downward,
    "projected": _projected,
}


def check_mounts(container: dict[str, Any], at: Path, sources: dict[str, str]) -> Refusals:
    """The mounts of a container. `sources` are the types of the Pod's volumes by name."""
    devices = {text(one, "name"): text(one, "devicePath") for _, one in _devices(container)}
    folders: set[str] = set()
    for index, mount in mappings(container, "volumeMounts"):
        path: Path = (*at, "volumeMounts", index)
        name, folder = text(mount, "name"), text(mount, "mountPath")
        if not name:
            yield required((*path, "name"), "the name of the volume is missing")
        elif name not in sources:
            yield _no_volume(name, (*path, "name"), sources)
        elif name in devices:
            yield invalid((*path, "name"), f"{name!r} is already in volumeDevices")
        if not folder:
            yield required((*path, "mountPath"), "the path in the container is missing")
        elif folder in folders:
            yield invalid(
                (*path, "mountPath"),
                f"{folder!r} is the path of another mount too",
                "Give each mount a path of its own.",
            )
        folders.add(folder)
        yield from _mount_options(container, mount, path)


def _mount_options(container: dict[str, Any], mount: dict[str, Any], at: Path) -> Refusals:
    part, expression = text(mount, "subPath"), text(mount, "subPathExpr")
    if part:
        yield from _descending(part, (*at, "subPath"))
    if expression:
        yield from _descending(expression, (*at, "subPathExpr"))
        if part:
            yield invalid((*at, "subPathExpr"), "only one of subPath and subPathExpr can be set")
    yield from choice(mount, "mountPropagation", at, _PROPAGATIONS)
    is_privileged = mapping(container, "securityContext").get("privileged") is True
    if text(mount, "mountPropagation") == "Bidirectional" and not is_privileged:
        yield forbidden((*at, "mountPropagation"), "Bidirectional needs a privileged container")
    recursive = text(mount, "recursiveReadOnly")
    yield from choice(mount, "recursiveReadOnly", at, _RECURSIVE)
    if recursive in _RECURSIVE[1:] and mount.get("readOnly") is not True:
        yield forbidden((*at, "recursiveReadOnly"), "it needs readOnly: true")


def check_devices(container: dict[str, Any], at: Path, sources: dict[str, str]) -> Refusals:
    """The block devices of a container."""
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in _devices(container):
        path: Path = (*at, "volumeDevices", index)
        name, where = text(device, "name"), text(device, "devicePath")
        if name not in sources:
            yield _no_volume(name, (*path, "name"), sources)
        elif sources[name] not in _BLOCK_SOURCES:
            yield invalid((*path, "name"), f"{name!r} is not a claim, so it is not a block device")
        if name in names:
            yield invalid((*path, "name"), f"{name!r} is used twice")
        if not where:
            yield required((*path, "devicePath"), "the path of the device is missing")
        elif where in paths:
            yield invalid((*path, "devicePath"), f"{where!r} is used twice")
        names.add(name)
        paths.add(where)


def _devices(container: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    return list(mappings(container, "volumeDevices")) if "volumeDevices" in container else []


def _no_volume(name: str, at: Path, sources: dict[str, str]) -> Refusal:
    known = ", ".join(map(repr, sorted(sources)))
    return Refusal(
        path=at,
        reason=Reason.NOT_FOUND,
        detail=f"the Pod has no volume {name!r}",
        hint=f"Its volumes: {known}." if known else "Add the volume to the Pod.",
    )


def check_claim(spec: dict[str, Any], at: Path) -> Refusals:
    """The spec of a claim: a PersistentVolumeClaim, or the template of one."""
    modes = listed(spec, "accessModes")
    if not modes:
        yield required((*at, "accessModes"), "a claim needs at least one access mode")
    for mode in modes:
        if isinstance(mode, str) and mode not in _ACCESS_MODES:
            yield unsupported((*at, "accessModes"), mode, _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(set(map(str, modes))) > 1:
        yield forbidden((*at, "accessModes"), "ReadWriteOncePod excludes the other access modes")
    yield from _storage(spec, at)
    yield from check_selector(spec.get("selector"), (*at, "selector"))
    yield from choice(spec, "volumeMode", at, ("Block", "Filesystem"))
    name = text(spec, "storageClassName")
    if name and (problem := name_problem(name)):
        yield invalid((*at, "storageClassName"), problem, NAME_HINT)


def _storage(spec: dict[str, Any], at: Path) -> Refusals:
    path = (*at, "resources", "requests", "storage")
    size = mapping(mapping(spec, "resources"), "requests").get("storage")
    if size is None:
        yield required(path, "a claim needs a size", "Set a size such as 100Gi.")
    elif not is_quantity(size):
        yield malformed_quantity(str(size), path)
    elif (amount := quantity(size)) is not None and amount <= 0:
        yield invalid(path, f"{shown(size)} is not more than 0")
