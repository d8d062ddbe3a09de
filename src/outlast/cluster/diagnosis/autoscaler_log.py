"""Why GKE's autoscaler added no node, from entries of its visibility log in Cloud Logging.

Pure: takes decoded entries. Nothing here raises. The log is optional for a diagnosis; some causes
are visible nowhere else.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from outlast.cluster.diagnosis.fields import map_of, maps_of, text_of, time_of
from outlast.cluster.resources import Object


@dataclass(frozen=True, kw_only=True, slots=True)
class ScaleUpRefusal:
    """A message of the autoscaler, such as no.scale.up.nap.disabled. `pod` is empty if for all."""

    message_id: str
    parameters: tuple[str, ...] = ()
    pod: str = ""
    pool: str = ""
    zone: str = ""
    seen: datetime | None = None


def scale_up_refusals(entries: Iterable[Object]) -> tuple[ScaleUpRefusal, ...]:
    return tuple(refusal for entry in entries for refusal in _read(entry))


def _read(entry: Object) -> Iterator[ScaleUpRefusal]:
    payload, seen = map_of(entry, "jsonPayload"), time_of(entry, "timestamp")
    refused = map_of(map_of(payload, "noDecisionStatus"), "noScaleUp")
    for key in ("reason", "napFailureReason"):
        yield from _refusal(map_of(refused, key), seen)
    for group in maps_of(refused, "unhandledPodGroups"):
        pod = text_of(map_of(map_of(group, "podGroup"), "samplePod"), "name")
        for reason in maps_of(group, "napFailureReasons"):
            yield from _refusal(reason, seen, pod=pod)
        for rejected in maps_of(group, "rejectedMigs"):
            yield from _refusal(
                map_of(rejected, "reason"), seen, pod=pod, group=map_of(rejected, "mig")
            )
    for result in maps_of(map_of(payload, "resultInfo"), "results"):
        yield from _refusal(map_of(result, "errorMsg"), seen)


def _refusal(
    message: Object, seen: datetime | None, *, pod: str = "", group: Object | None = None
) -> Iterator[ScaleUpRefusal]:
    given = message.get("parameters")
    if text_of(message, "messageId"):
        yield ScaleUpRefusal(
            message_id=text_of(message, "messageId"),
            parameters=tuple(str(one) for one in given) if isinstance(given, list) else (),
            pod=pod,
            pool=text_of(group or {}, "nodepool"),
            zone=text_of(group or {}, "zone"),
            seen=seen,
        )
