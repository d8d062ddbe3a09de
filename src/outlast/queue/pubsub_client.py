"""What is asked of Pub/Sub, one bounded call at a time. The only module that imports its client.

Unary pull, because a streaming pull keeps messages for a process that has long been told to leave.
"""

import contextlib
import os
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from outlast.queue.errors import QueueUnavailable
from outlast.queue.pubsub_messages import MARK
from outlast.storage.errors import MissingExtra

try:
    import grpc  # type: ignore[import-untyped]  # it has no types
    from google.api_core import exceptions as api
    from google.api_core import grpc_helpers
    from google.auth import exceptions as auth
    from google.pubsub_v1.services.publisher import PublisherClient
    from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
    from google.pubsub_v1.services.subscriber import SubscriberClient
    from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport
    from google.pubsub_v1.types import PullRequest
except ImportError as error:
    raise MissingExtra("pubsub", needed_for="A queue in Pub/Sub") from error

ACK_SECONDS_MAX = 600
"""The longest that Pub/Sub lets a message be held at once."""

_ACK_SECONDS = 60
_DELIVERIES_MAX = 100
_ANSWER_SECONDS_MAX = 15.0
_PAUSE_SECONDS = (0.1, 2.0)
# In one request: Pub/Sub takes 1,000 messages, 10 MB, and 512 KiB of what names messages.
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

# What a subscription that delivers exactly once says of messages that another holds by now.
_REFUSALS = (api.InvalidArgument, api.FailedPrecondition)


class Received(NamedTuple):
    """A message that was pulled. `attempt` counts its deliveries, 0 where Pub/Sub does not."""

    ack_id: str
    data: bytes
    attributes: dict[str, str]
    message_id: str
    attempt: int


class Subscribed(NamedTuple):
    """How a subscription was made, as far as we may look: `ack_seconds` is 0 if we may not.

    One that delivers exactly once says so when a message is no longer held.
    """

    ack_seconds: int = 0
    delivers_exactly_once: bool = False
    counts_deliveries: bool = False


class NotHeld(Exception):
    """Some messages are no longer held by whoever pulled them."""


class Missing(Exception):
    """There is no such topic or subscription."""


class PubSubClient:
    """The topics of one project. Each call tries for `retry_seconds`, then gives up."""

    def __init__(self, project: str, *, retry_seconds: float) -> None:
        self._project = project
        self._retry_seconds = retry_seconds
        try:
            self._channel = _channel()
        except auth.GoogleAuthError as error:
            raise self._unavailable(error) from error
        self._publisher = PublisherClient(transport=PublisherGrpcTransport(channel=self._channel))
        transport = SubscriberGrpcTransport(channel=self._channel)
        self._subscriber = SubscriberClient(transport=transport)
        wrap: Any = grpc_helpers.wrap_errors
        self._pull_raw = wrap(transport.pull)

    def ensure(self, topic: str, subscription: str, *, dead_topic: str | None = None) -> Subscribed:
        """Make a topic and its subscription, unless they are there.

        With a dead topic, deliveries are counted, and a message goes there after a hundred of them.
        """
        look = self._subscriber.get_subscription
        asked = {"subscription": self._subscription(subscription)}
        try:
            found = self._call(look, asked, answers=(api.PermissionDenied,))
        except Missing:
            self._make(topic, subscription, dead_topic)
            found = self._call(look, asked)
        except api.PermissionDenied:
            # Who may only consume may not look, and need not.
            return Subscribed()
        return Subscribed(
            ack_seconds=found.ack_deadline_seconds,
            delivers_exactly_once=found.enable_exactly_once_delivery,
            counts_deliveries=bool(found.dead_letter_policy.dead_letter_topic),
        )

    def publish(self, topic: str, messages: Sequence[bytes]) -> None:
        """Publish all messages. If killed: some of them, each whole."""
        batch: list[bytes] = []
        size_bytes = 0
        for data in messages:
            if len(batch) == _MESSAGES_MAX or size_bytes + len(data) > _BYTES_MAX:
                self._publish(topic, batch)
                batch, size_bytes = [], 0
            batch.append(data)
            size_bytes += len(data)
        if batch:
            self._publish(topic, batch)

    def pull(
        self, subscription: str, limit: int, *, wait_seconds: float | None = None
    ) -> list[Received]:
        """Up to `limit` messages; none if none came, which does not mean that none are there.

        What comes later than `wait_seconds` is lost until Pub/Sub delivers it again, so they should
        not be few. Without them, it is asked for what is at hand: Google advises against that for
        the pulls that matter, since it finds less.
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
            Received(
                ack_id=one.ack_id,
                data=one.message.data,
                attributes=dict(one.message.attributes),
                message_id=one.message.message_id,
                attempt=one.delivery_attempt,
            )
            for one in answer.received_messages
        ]

    def acknowledge(self, subscription: str, ack_ids: Sequence[str]) -> None:
        """Let go of messages for good. Raises `NotHeld`; some may be gone nevertheless."""
        self._settle(self._subscriber.acknowledge, subscription, ack_ids)

    def hold(self, subscription: str, ack_ids: Sequence[str], seconds: int) -> None:
        """Keep messages from others for so long from now; 0 gives them back at once."""
        self._settle(
            self._subscriber.modify_ack_deadline,
            subscription,
            ack_ids,
            ack_deadline_seconds=seconds,
        )

    def close(self) -> None:
        self._channel.close()

    def _pull(self, *, request: dict[str, Any], retry: None, timeout: float) -> Any:
        """As the client does it, without its warning about `return_immediately`."""
        metadata = [("x-goog-request-params", f"subscription={request['subscription']}")]
        return self._pull_raw(PullRequest(request), timeout=timeout, metadata=metadata)

    def _make(self, topic: str, subscription: str, dead_topic: str | None) -> None:
        request: dict[str, Any] = {
            "name": self._subscription(subscription),
            "topic": self._topic(topic),
            "ack_deadline_seconds": _ACK_SECONDS,
            "enable_exactly_once_delivery": True,
            # Without a time to live it is never taken for forgotten.
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
                raise NotHeld from error

    def _call(
        self,
        method: Callable[..., Any],
        request: dict[str, Any],
        *,
        timeout_seconds: float = _ANSWER_SECONDS_MAX,
        answers: tuple[type[Exception], ...] = (),
    ) -> Any:
        """Ask, and ask again while that may help. Errors that are `answers` are raised as such."""
        give_up_at = time.monotonic() + self._retry_seconds
        tries = 0
        while True:
            try:
                return method(request=request, retry=None, timeout=timeout_seconds)
            except (api.GoogleAPICallError, auth.GoogleAuthError) as error:
                if isinstance(error, answers):
                    raise
                if isinstance(error, api.NotFound):
                    raise Missing from error
                if time.monotonic() >= give_up_at or not isinstance(error, _PASSING):
                    raise self._unavailable(error) from error
            time.sleep(_pause_seconds(tries))
            tries += 1

    def _topic(self, name: str) -> str:
        return f"projects/{self._project}/topics/{name}"

    def _subscription(self, name: str) -> str:
        return f"projects/{self._project}/subscriptions/{name}"

    def _unavailable(self, error: Exception) -> QueueUnavailable:
        text = " ".join(str(error).split())
        return QueueUnavailable(
            f"Pub/Sub did not do what was asked in project {self._project!r}: {text:.300}",
            hint=_hint(error),
        )


def _channel() -> Any:
    """A connection to Pub/Sub, or to the emulator that the environment names."""
    if emulator := os.environ.get("PUBSUB_EMULATOR_HOST"):
        return grpc.insecure_channel(emulator, options=_CHANNEL)
    return SubscriberGrpcTransport.create_channel(options=_CHANNEL)


def _hint(error: Exception) -> str:
    if isinstance(error, auth.GoogleAuthError | api.Unauthenticated):
        return "Run `gcloud auth application-default login`, or use Workload Identity in a cluster."
    if isinstance(error, api.PermissionDenied):
        return "Give the account the roles Pub/Sub Publisher, Subscriber and Viewer, or Editor."
    return "Check the network and the status of the service, then start again: nothing is lost."


def _pause_seconds(tries: int) -> float:
    least, most = _PAUSE_SECONDS
    return min(least * 2.0 ** min(tries, 30), most) * random.uniform(0.5, 1.0)
