"""Bounded calls to Pub/Sub. The only module that imports its client library.

It uses unary pull, because a streaming pull keeps delivering messages to a process that is about to
exit.
"""

import contextlib
import os
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from outlast._base.backoff import backoff_seconds
from outlast._base.batches import batched
from outlast._redact import redact
from outlast.errors import MissingExtra, SettingError
from outlast.queue.errors import QueueUnavailable
from outlast.queue.pubsub.messages import MARK
from outlast.storage.objects.endpoints import is_loopback

try:
    import grpc  # type: ignore[import-untyped]  # it has no types
    from google.api_core import exceptions as api
    from google.api_core import grpc_helpers
    from google.auth import exceptions as auth
    from google.pubsub_v1.services.publisher import PublisherClient
    from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
    from google.pubsub_v1.services.subscriber import SubscriberClient
    from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport
    from google.pubsub_v1.types import PullRequest, PullResponse
except ImportError as error:
    raise MissingExtra("pubsub", needed_for="A Pub/Sub queue") from error

ACK_SECONDS_MAX = 600
"""The longest acknowledgment deadline that Pub/Sub allows."""

_ACK_SECONDS = 60
_DELIVERIES_MAX = 100
_ANSWER_SECONDS_MAX = 15.0
_PAUSE_SECONDS = (0.1, 2.0)
# Limits of one request: 1,000 messages, 10 MB, and 512 KiB of acknowledgment IDs.
_MESSAGES_MAX = 1000
_BYTES_MAX = 9_500_000
_CHANNEL = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 30_000),
)
_PASSING = (
    api.ServiceUnavailable,
    api.DeadlineExceeded,
    api.InternalServerError,
    api.Aborted,
    api.Unknown,
    api.TooManyRequests,
    api.Cancelled,
)

# Errors of an exactly-once subscription for messages that another client holds now.
_REFUSALS = (api.InvalidArgument, api.FailedPrecondition)


class PulledMessage(NamedTuple):
    """A message from a pull. `attempt` is its delivery count, or 0 if Pub/Sub does not count."""

    ack_id: str
    data: bytes
    attributes: dict[str, str]
    message_id: str
    attempt: int


class SubscriptionInfo(NamedTuple):
    """The properties of a subscription. `ack_seconds` is 0 if we lack permission to read them.

    With exactly-once delivery, Pub/Sub reports when a message is no longer held.
    """

    ack_seconds: int = 0
    delivers_exactly_once: bool = False
    counts_deliveries: bool = False


class MessagesNotHeld(Exception):
    """Some messages are no longer held by the client that pulled them."""


class TopicMissing(Exception):
    """The topic or subscription does not exist."""


class PubSubClient:
    """Access to the topics of one project. Calls are retried for up to `retry_seconds`."""

    def __init__(self, project: str, *, retry_seconds: float) -> None:
        self._project = project
        self._retry_seconds = retry_seconds
        try:
            self._channel = _channel()
        except auth.GoogleAuthError as error:
            # Not chained: the client's error may contain secrets.
            raise self._unavailable(error) from None
        self._publisher = PublisherClient(transport=PublisherGrpcTransport(channel=self._channel))
        transport = SubscriberGrpcTransport(channel=self._channel)
        self._subscriber = SubscriberClient(transport=transport)
        wrap: Any = grpc_helpers.wrap_errors
        self._pull_raw = wrap(transport.pull)

    def ensure(
        self, topic: str, subscription: str, *, dead_topic: str | None = None
    ) -> SubscriptionInfo:
        """Create a topic and its subscription if they do not exist.

        With a dead topic, deliveries are counted, and a message moves there after a hundred.
        """
        look = self._subscriber.get_subscription
        asked = {"subscription": self._subscription(subscription)}
        try:
            found = self._call(look, asked, answers=(api.PermissionDenied,))
        except TopicMissing:
            self._make(topic, subscription, dead_topic)
            found = self._call(look, asked)
        except api.PermissionDenied:
            # A client that may only consume cannot read the settings, and does not need to.
            return SubscriptionInfo()
        return SubscriptionInfo(
            ack_seconds=found.ack_deadline_seconds,
            delivers_exactly_once=found.enable_exactly_once_delivery,
            counts_deliveries=bool(found.dead_letter_policy.dead_letter_topic),
        )

    def publish(self, topic: str, messages: Sequence[bytes]) -> None:
        """Publish all messages. If killed: some of them were published."""
        for batch in batched(messages, len, count_max=_MESSAGES_MAX, bytes_max=_BYTES_MAX):
            self._publish(topic, batch)

    def pull(
        self, subscription: str, limit: int, *, wait_seconds: float | None = None
    ) -> list[PulledMessage]:
        """Up to `limit` messages. An empty list does not mean that there are none.

        Messages that arrive after `wait_seconds` are lost until Pub/Sub delivers them again, so do
        not make it too short. If None, the pull returns immediately with what is available, which
        Google discourages for regular pulls because it finds fewer messages.
        """
        request = {
            "subscription": self._subscription(subscription),
            "max_messages": min(limit, _MESSAGES_MAX),
            "return_immediately": wait_seconds is None,
        }
        try:
            answer = self._call(
                self._pull,
                request,
                timeout_seconds=wait_seconds or _ANSWER_SECONDS_MAX,
                answers=(api.DeadlineExceeded,),
            )
        except api.DeadlineExceeded:
            return []
        return [
            PulledMessage(
                ack_id=one.ack_id,
                data=one.message.data,
                attributes=dict(one.message.attributes),
                message_id=one.message.message_id,
                attempt=one.delivery_attempt,
            )
            # Without the client's wrappers, whose attributes take ten times as long to read.
            for one in PullResponse.pb(answer).received_messages
        ]

    def acknowledge(self, subscription: str, ack_ids: Sequence[str]) -> None:
        """Acknowledge messages. Raises `MessagesNotHeld`; some may be acknowledged anyway."""
        self._settle(self._subscriber.acknowledge, subscription, ack_ids)

    def hold(self, subscription: str, ack_ids: Sequence[str], seconds: int) -> None:
        """Hold messages for this many seconds from now; 0 releases them at once."""
        self._settle(
            self._subscriber.modify_ack_deadline,
            subscription,
            ack_ids,
            ack_deadline_seconds=seconds,
        )

    def close(self) -> None:
        self._channel.close()

    def _pull(self, *, request: dict[str, Any], retry: None, timeout: float) -> Any:
        """The client's pull, without its warning about `return_immediately`."""
        metadata = [("x-goog-request-params", f"subscription={request['subscription']}")]
        return self._pull_raw(PullRequest(request), timeout=timeout, metadata=metadata)

    def _make(self, topic: str, subscription: str, dead_topic: str | None) -> None:
        request: dict[str, Any] = {
            "name": self._subscription(subscription),
            "topic": self._topic(topic),
            "ack_deadline_seconds": _ACK_SECONDS,
            "enable_exactly_once_delivery": True,
            # Without a time to live, the subscription never expires.
            "expiration_policy": {},
        }
        if dead_topic is not None:
            policy = {"max_delivery_attempts": _DELIVERIES_MAX}
            request["dead_letter_policy"] = policy | {"dead_letter_topic": self._topic(dead_topic)}
        there = (api.AlreadyExists,)
        with contextlib.suppress(*there):
            name = self._topic(topic)
            self._call(self._publisher.create_topic, {"name": name}, answers=there)
        with contextlib.suppress(*there):
            self._call(self._subscriber.create_subscription, request, answers=there)

    def _publish(self, topic: str, batch: Sequence[bytes]) -> None:
        messages = [{"data": data, "attributes": MARK} for data in batch]
        self._call(self._publisher.publish, {"topic": self._topic(topic), "messages": messages})

    def _settle(
        self, method: Callable[..., Any], subscription: str, ack_ids: Sequence[str], **fields: int
    ) -> None:
        for start in range(0, len(ack_ids), _MESSAGES_MAX):
            request = {
                "subscription": self._subscription(subscription),
                "ack_ids": ack_ids[start : start + _MESSAGES_MAX],
                **fields,
            }
            try:
                self._call(method, request, answers=_REFUSALS)
            except _REFUSALS as error:
                raise MessagesNotHeld from error

    def _call(
        self,
        method: Callable[..., Any],
        request: dict[str, Any],
        *,
        timeout_seconds: float = _ANSWER_SECONDS_MAX,
        answers: tuple[type[Exception], ...] = (),
    ) -> Any:
        """Call, and retry while that may help. Errors in `answers` are raised unchanged."""
        give_up_at = time.monotonic() + self._retry_seconds
        tries = 0
        while True:
            try:
                return method(request=request, retry=None, timeout=timeout_seconds)
            except (api.GoogleAPICallError, auth.GoogleAuthError) as error:
                if isinstance(error, answers):
                    raise
                if isinstance(error, api.NotFound):
                    raise TopicMissing from error
                if time.monotonic() >= give_up_at or not isinstance(error, _PASSING):
                    raise self._unavailable(error) from None
            time.sleep(backoff_seconds(tries, *_PAUSE_SECONDS))
            tries += 1

    def _topic(self, name: str) -> str:
        return f"projects/{self._project}/topics/{name}"

    def _subscription(self, name: str) -> str:
        return f"projects/{self._project}/subscriptions/{name}"

    def _unavailable(self, error: Exception) -> QueueUnavailable:
        text = " ".join(redact(str(error)).split())
        return QueueUnavailable(
            f"Pub/Sub request failed in project {self._project!r}: {text:.300}",
            hint=_hint(error),
            permanent=not isinstance(error, (*_PASSING, auth.TransportError)),
        )


def _channel() -> Any:
    """A channel to Pub/Sub, or to the emulator named in the environment."""
    if emulator := os.environ.get("PUBSUB_EMULATOR_HOST"):
        if not re.fullmatch(r"[\w.]+(:\d+)?|\[[0-9a-f:]+\](:\d+)?", emulator) or not is_loopback(
            f"http://{emulator}"
        ):
            raise SettingError(
                f"PUBSUB_EMULATOR_HOST is {emulator!r}, which is not on this machine. Messages "
                "would be sent there without encryption or authentication.",
                hint="Unset it to use Pub/Sub, or run the emulator on 127.0.0.1 or localhost.",
                source="variable PUBSUB_EMULATOR_HOST",
            )
        return grpc.insecure_channel(emulator, options=_CHANNEL)
    return SubscriberGrpcTransport.create_channel(options=_CHANNEL)


def _hint(error: Exception) -> str:
    if isinstance(error, auth.GoogleAuthError | api.Unauthenticated):
        return "Run `gcloud auth application-default login`, or use Workload Identity in a cluster."
    if isinstance(error, api.PermissionDenied):
        return "Grant the account the roles Pub/Sub Publisher, Subscriber and Viewer, or Editor."
    return "Check the network and the service status, then run it again. Nothing is lost."
