"""The metrics that the process exports and the alerts read. One name each, in one place."""

PROGRESS = "outlast_progress_total"
"""A counter: the steps or items that this process has finished."""

CHECKPOINT_TIME = "outlast_checkpoint_timestamp_seconds"
"""Unix time at which the newest checkpoint became durable."""

QUEUE_READY = "outlast_queue_ready"
"""Items that wait in the queue."""

EXPIRES = "outlast_expires_timestamp_seconds"
"""Unix time at which the node will be taken away, where it is known."""
