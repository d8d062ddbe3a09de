"""The "restricted" Pod Security Standard as a pure check of a Pod template.

Follows the admission controller: every rule of "baseline" that a manifest of ours could break, and
every rule of "restricted". A container's own setting counts before that of its Pod.
"""

from collections.abc import Iterator
from typing import Any

VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
SYSCTLS = {
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
}


def violations(template: Any) -> list[str]:
    """What the restricted profile forbids in the template, each with its place."""
    pod = template["spec"]
    found = [*_pod(pod)]
    for key in ("initContainers", "containers", "ephemeralContainers"):
        for container in pod.get(key, []):
            where = f"{key} {container['name']!r}: "
            found += [where + one for one in _container(container, pod.get("securityContext", {}))]
    return found


def _pod(pod: Any) -> Iterator[str]:
    context = pod.get("securityContext", {})
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(key):
            yield key
    if "windowsOptions" in context or "appArmorProfile" in context or "seLinuxOptions" in context:
        yield "options of the host's security module"
    for sysctl in context.get("sysctls", []):
        if sysctl["name"] not in SYSCTLS:
            yield f"sysctl {sysctl['name']}"
    for volume in pod.get("volumes", []):
        if not (volume.keys() - {"name"}) <= VOLUMES or len(volume) != 2:
            yield f"volume {volume}"


def _container(container: Any, pod: Any) -> Iterator[str]:
    own = container.get("securityContext", {})
    yield from _rights(own)
    yield from _identity(own, pod)
    for port in container.get("ports", []):
        if port.get("hostPort"):
            yield f"hostPort {port['hostPort']}"
    for hook in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(hook, {}).get("httpGet", {}).get("host"):
            yield f"{hook} names a host"


def _rights(own: Any) -> Iterator[str]:
    if own.get("privileged"):
        yield "privileged"
    if own.get("procMount", "Default") != "Default":
        yield "procMount"
    if own.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation is not false"
    capabilities = own.get("capabilities", {})
    if "ALL" not in capabilities.get("drop", []):
        yield "capabilities are not dropped"
    if set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
        yield "capabilities are added"


def _identity(own: Any, pod: Any) -> Iterator[str]:
    if own.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
        yield "runAsNonRoot is not true"
    if own.get("runAsUser", pod.get("runAsUser")) == 0:
        yield "runAsUser is 0"
    seccomp = own.get("seccompProfile", pod.get("seccompProfile", {}))
    if seccomp.get("type") not in ("RuntimeDefault", "Localhost"):
        yield "seccompProfile"
