"""What Pods may do and who may connect to them: security contexts, Namespace, NetworkPolicy.

Pods meet the restricted Pod Security Standard unless the workload states a reason:

https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
"""

from outlast.capacity.vocabulary import AlertStack, WorkloadKind
from outlast.capacity.workload.sections import HOME, TEMPORARY, USER_DEFAULT
from outlast.manifests.render.files import RenderedFile, manifest
from outlast.manifests.render.resolved import ResolvedWorkload
from outlast.yamltext.writing import Commented, Value

_USER_NAME = "outlast"
_SECCOMP: Value = {"type": "RuntimeDefault"}
_PRIVILEGED_PORTS = 1024
_THERE_ALWAYS = {"default"}
_POD_SECURITY = "pod-security.kubernetes.io"
_COLLECTORS = {
    # GKE runs its managed collectors in the second one.
    AlertStack.GMP: ("gmp-system", "gke-gmp-system"),
    AlertStack.OPERATOR: ("monitoring",),
}


def is_restricted(resolved: ResolvedWorkload) -> bool:
    return resolved.workload.security.run_as_root is None


def pod_security(resolved: ResolvedWorkload) -> Value:
    """The `securityContext` of the Pod."""
    security = resolved.workload.security
    if security.run_as_root is not None:
        return Commented({"seccompProfile": _SECCOMP}, f"Runs as root: {security.run_as_root}")
    user = user_of(resolved)
    context: dict[str, Value] = {
        "runAsNonRoot": True,
        "runAsUser": Commented(
            user, "Overrides the user of the image. Set security.user to change it."
        ),
        "runAsGroup": user,
        "fsGroup": Commented(user, "Volumes are writable by this group."),
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": _SECCOMP,
    }
    is_server = resolved.workload.kind is WorkloadKind.SERVING
    if is_server and resolved.workload.serving.port < _PRIVILEGED_PORTS:
        sysctl: Value = {"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}
        reason = "Allows a non-root server to listen on a port below 1024."
        context["sysctls"] = Commented([sysctl], reason)
    return context


def container_security(resolved: ResolvedWorkload) -> Value:
    """The `securityContext` of each container."""
    context: dict[str, Value] = {"allowPrivilegeEscalation": False}
    if not is_restricted(resolved):
        return context
    context["capabilities"] = {"drop": ["ALL"]}
    reason = resolved.workload.security.writable_root
    if reason is not None:
        return Commented(context, f"The root filesystem is writable: {reason}")
    context["readOnlyRootFilesystem"] = Commented(
        True, "Only the volumes below are writable. Use security.writable to add directories."
    )
    return context


def user_of(resolved: ResolvedWorkload) -> int:
    return resolved.workload.security.user or USER_DEFAULT


def home_variables(resolved: ResolvedWorkload) -> dict[str, str]:
    """Variables for libraries, because the user has no entry in the image's /etc/passwd."""
    return {"HOME": HOME, "USER": _USER_NAME} if is_restricted(resolved) else {}


def scratch_folders(resolved: ResolvedWorkload) -> dict[str, str]:
    """Writable paths, by the name of the emptyDir mounted at each."""
    if not is_restricted(resolved):
        return {}
    more = resolved.workload.security.writable
    return {
        "tmp": TEMPORARY,
        "home": HOME,
        **{f"writable-{number}": path for number, path in enumerate(more)},
    }


def namespace_file(resolved: ResolvedWorkload) -> RenderedFile | None:
    if resolved.namespace in _THERE_ALWAYS:
        return None
    return manifest(
        "10-namespace.yaml",
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": resolved.namespace,
                "labels": {"app.kubernetes.io/managed-by": "outlast", **_levels(resolved)},
            },
        },
    )


def _levels(resolved: ResolvedWorkload) -> dict[str, Value]:
    """The Pod Security Standard enforced for all Pods of the namespace."""
    level = "restricted" if is_restricted(resolved) else "baseline"
    reason = (
        f"Pods that violate the {level!r} Pod Security Standard are rejected in this namespace."
    )
    if not is_restricted(resolved):
        reason += " Not 'restricted', because this workload runs as root."
    return {
        f"{_POD_SECURITY}/enforce": Commented(level, reason),
        f"{_POD_SECURITY}/warn": level,
        f"{_POD_SECURITY}/audit": level,
    }


def network_policy_file(resolved: ResolvedWorkload) -> RenderedFile:
    body: Value = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": resolved.metadata,
        "spec": {
            "podSelector": {"matchLabels": resolved.selector},
            "policyTypes": ["Ingress"],
            "ingress": _ingress_rules(resolved),
        },
    }
    reason = (
        "All other incoming connections are refused; outgoing connections are not limited. Takes "
        "effect if the cluster enforces network policies: Autopilot, Dataplane V2 or Calico."
    )
    return manifest("46-network-policy.yaml", body, reason=reason)


def _ingress_rules(resolved: ResolvedWorkload) -> list[Value]:
    workload = resolved.workload
    collectors = workload.alerts.collectors or _COLLECTORS[workload.alerts.stack]
    selector: Value = {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(collectors)}
        ]
    }
    rules: list[Value] = [
        {
            "from": Commented(
                [{"namespaceSelector": selector}],
                "The metrics endpoint has no authentication. Set alerts.collectors to change who "
                "may read it.",
            ),
            "ports": [_port(workload.alerts.metrics_port)],
        }
    ]
    if workload.kind is WorkloadKind.SERVING:
        reason = "Open to every client that can reach the Service or its load balancer."
        rules.append({"ports": Commented([_port(workload.serving.port)], reason)})
    if workload.nodes > 1:
        reason = "The Pods of a run connect to each other on dynamic ports."
        peers: Value = [{"podSelector": {"matchLabels": resolved.selector}}]
        rules.append({"from": Commented(peers, reason)})
    return rules


def _port(number: int) -> Value:
    return {"protocol": "TCP", "port": number}
