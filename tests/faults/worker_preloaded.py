"""What a worker's life needs, loaded once by the server that forks it."""

import google.cloud.pubsub_v1  # type: ignore[import-untyped]  # it has no types
import psycopg

import outlast.queue.postgres.queue
import outlast.queue.pubsub.queue
import outlast.queue.sqlite.queue
import outlast.results.postgres
import outlast.results.sqlite
import tests.faults.worker_program

__all__ = ["google", "outlast", "psycopg", "tests"]
