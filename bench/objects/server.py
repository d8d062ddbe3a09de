"""A quick S3-compatible server in memory, with the latency and bandwidth of a chosen network.

    python -m bench.objects.server --latency-ms 20 --mbit-per-second 4000

It speaks what a client of checkpoints needs: conditional and plain PUT, ranged GET, HEAD, DELETE,
listing, multipart uploads and batch deletion. Signatures are not checked, and it binds to loopback.
Delays are made here rather than in a proxy, which would copy every byte once more on the cores that
are being measured. An ETag names one write: it never stays the same when the content changes.
"""

import argparse
import itertools
import json
import re
import socket
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

STEP_BYTES = 1024**2
KEPT_BYTES_MIN = 1024**2
LISTED_MAX = 1000
HEAD_BYTES_MAX = 64 * 1024

Query: TypeAlias = Mapping[str, list[str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """An object: its bytes in order, in the pieces in which they came."""

    pieces: tuple[memoryview, ...]
    etag: str
    modified: datetime

    @property
    def size(self) -> int:
        return sum(map(len, self.pieces))

    def between(self, start: int, end: int) -> Iterator[memoryview]:
        for piece in self.pieces:
            if start < len(piece) and end > 0:
                yield piece[max(0, start) : end]
            start, end = start - len(piece), end - len(piece)


@dataclass(kw_only=True, slots=True)
class Answer:
    status: str = "200 OK"
    headers: dict[str, str] = field(default_factory=dict)
    body: tuple[memoryview, ...] = ()


class Network:
    """A delay for each request and connection, and a speed that all of them share."""

    def __init__(self, latency_seconds: float, bytes_per_second: float) -> None:
        self._latency_seconds = latency_seconds
        self._bytes_per_second = bytes_per_second
        self._lock = threading.Lock()
        self._free_at = defaultdict[str, float](float)

    def round_trip(self) -> None:
        if self._latency_seconds:
            time.sleep(self._latency_seconds)

    def pass_bytes(self, direction: str, count: int) -> None:
        """Return when so many bytes have crossed, after all that came before them."""
        if not self._bytes_per_second:
            return
        with self._lock:
            now = time.monotonic()
            start = max(now, self._free_at[direction])
            self._free_at[direction] = start + count / self._bytes_per_second
        time.sleep(max(0.0, self._free_at[direction] - now))

    @property
    def is_unlimited(self) -> bool:
        return not self._bytes_per_second


class Memory:
    """Large buffers, used again when their object is gone: new ones take long to touch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: dict[int, list[bytearray]] = defaultdict(list)

    def take(self, size: int) -> memoryview:
        kept = -(-size // KEPT_BYTES_MIN) * KEPT_BYTES_MIN
        with self._lock:
            free = self._free.get(kept)
            if free:
                return memoryview(free.pop())[:size]
        return memoryview(bytearray(size if size < KEPT_BYTES_MIN else kept))[:size]

    def give(self, pieces: tuple[memoryview, ...]) -> None:
        with self._lock:
            for piece in pieces:
                if isinstance(piece.obj, bytearray) and len(piece.obj) >= KEPT_BYTES_MIN:
                    self._free[len(piece.obj)].append(piece.obj)


class Bucket:
    """All objects and unfinished uploads. One lock, never held while bytes move."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._objects: dict[str, Stored] = {}
        self._uploads: dict[str, dict[int, Stored]] = {}
        self._numbers = itertools.count(1)
        self.memory = Memory()
        self.counts: Counter[str] = Counter()

    def stored(self, pieces: tuple[memoryview, ...]) -> Stored:
        return Stored(
            pieces=pieces, etag=f'"{next(self._numbers):032x}"', modified=datetime.now(UTC)
        )

    def find(self, key: str) -> Stored | None:
        with self._lock:
            return self._objects.get(key)

    def put(self, key: str, new: Stored, *, if_absent: bool) -> bool:
        with self._lock:
            before = self._objects.get(key)
            if before is not None and if_absent:
                return False
            self._objects[key] = new
        if before is not None:
            self.memory.give(before.pieces)
        return True

    def delete(self, key: str) -> None:
        with self._lock:
            before = self._objects.pop(key, None)
        if before is not None:
            self.memory.give(before.pieces)

    def begin(self) -> str:
        with self._lock:
            name = f"upload-{next(self._numbers)}"
            self._uploads[name] = {}
            return name

    def put_part(self, upload: str, number: int, part: Stored) -> bool:
        with self._lock:
            if upload not in self._uploads:
                return False
            self._uploads[upload][number] = part
            return True

    def end(self, upload: str) -> dict[int, Stored] | None:
        with self._lock:
            return self._uploads.pop(upload, None)

    def listed(self, prefix: str, after: str) -> list[tuple[str, Stored]]:
        with self._lock:
            return sorted(
                (key, one)
                for key, one in self._objects.items()
                if key.startswith(prefix) and key > after
            )

    def note(self, kind: str) -> None:
        with self._lock:
            self.counts[kind] += 1

    def take_counts(self) -> dict[str, int]:
        with self._lock:
            counts, self.counts = dict(self.counts), Counter()
            return counts


class Connection:
    """One client's requests, one after the other."""

    def __init__(self, client: socket.socket, bucket: Bucket, network: Network) -> None:
        self._client = client
        self._bucket = bucket
        self._network = network
        self._ahead = b""
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def serve(self) -> None:
        self._network.round_trip()
        try:
            while (head := self._head()) is not None:
                self._one(*head)
        except (ConnectionError, TimeoutError):
            pass
        finally:
            self._client.close()

    def _one(self, method: str, target: str, headers: Mapping[str, str]) -> None:
        split = urlsplit(target)
        query = parse_qs(split.query, keep_blank_values=True)
        # The first part of a path is the bucket.
        _, _, key = unquote(split.path).lstrip("/").partition("/")
        if headers.get("expect") == "100-continue":
            self._client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = self._body(int(headers.get("content-length", "0")))
        if split.path == "/-/counts":
            counts = json.dumps(self._bucket.take_counts()).encode()
            self._send(method, Answer(body=(memoryview(counts),)))
            return
        self._network.round_trip()
        self._send(method, self._answer(method, key, query, headers, body))

    def _answer(
        self, method: str, key: str, query: Query, headers: Mapping[str, str], body: memoryview
    ) -> Answer:
        if method in ("GET", "HEAD") and key:
            self._bucket.note("read")
            return self._get(key, headers)
        if method == "HEAD":
            self._bucket.note("read")
            return Answer()
        if method == "DELETE":
            self._bucket.note("delete")
            if "uploadId" in query:
                self._abort(query["uploadId"][0])
            else:
                self._bucket.delete(key)
            return Answer(status="204 No Content")
        self._bucket.note("list" if method == "GET" else "write")
        if method == "GET":
            return self._list(query)
        if method == "PUT":
            return self._put(key, query, headers, body)
        if "delete" in query:
            keys = [unescape(key) for key in re.findall(r"<Key>(.*?)</Key>", bytes(body).decode())]
            for one in keys:
                self._bucket.delete(one)
            deleted = (f"<Deleted><Key>{escape(one)}</Key></Deleted>" for one in keys)
            return _xml(f"<DeleteResult>{''.join(deleted)}</DeleteResult>")
        if "uploads" in query:
            name = self._bucket.begin()
            return _xml(
                "<InitiateMultipartUploadResult><Bucket>b</Bucket>"
                f"<Key>{escape(key)}</Key><UploadId>{name}</UploadId>"
                "</InitiateMultipartUploadResult>"
            )
        return self._complete(key, query["uploadId"][0], bytes(body))

    def _put(self, key: str, query: Query, headers: Mapping[str, str], body: memoryview) -> Answer:
        if source := headers.get("x-amz-copy-source"):
            return self._copy(unquote(source), key)
        new = self._bucket.stored((body,))
        if "uploadId" in query:
            number = int(query["partNumber"][0])
            if not self._bucket.put_part(query["uploadId"][0], number, new):
                return _error("404 Not Found", "NoSuchUpload")
        elif not self._bucket.put(key, new, if_absent=headers.get("if-none-match") == "*"):
            return _error("412 Precondition Failed", "PreconditionFailed")
        return Answer(headers={"ETag": new.etag})

    def _copy(self, source: str, key: str) -> Answer:
        _, _, name = source.lstrip("/").partition("/")
        found = self._bucket.find(name)
        if found is None:
            return _error("404 Not Found", "NoSuchKey")
        new = self._bucket.stored((memoryview(bytearray().join(found.pieces)),))
        self._bucket.put(key, new, if_absent=False)
        return _xml(f"<CopyObjectResult><ETag>{escape(new.etag)}</ETag></CopyObjectResult>")

    def _complete(self, key: str, upload: str, body: bytes) -> Answer:
        parts = self._bucket.end(upload)
        wanted = [int(number) for number in re.findall(rb"<PartNumber>(\d+)<", body)]
        if parts is None or any(number not in parts for number in wanted):
            return _error("400 Bad Request", "InvalidPart")
        new = self._bucket.stored(tuple(parts[number].pieces[0] for number in wanted))
        self._bucket.put(key, new, if_absent=False)
        return _xml(
            f"<CompleteMultipartUploadResult><Key>{escape(key)}</Key><ETag>{new.etag}</ETag>"
            "</CompleteMultipartUploadResult>"
        )

    def _abort(self, upload: str) -> None:
        for part in (self._bucket.end(upload) or {}).values():
            self._bucket.memory.give(part.pieces)

    def _get(self, key: str, headers: Mapping[str, str]) -> Answer:
        found = self._bucket.find(key)
        if found is None:
            return _error("404 Not Found", "NoSuchKey")
        size = found.size
        described = {
            "ETag": found.etag,
            "Last-Modified": format_datetime(found.modified, usegmt=True),
            "Accept-Ranges": "bytes",
        }
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("range", ""))
        if wanted is None:
            return Answer(headers=described, body=tuple(found.between(0, size)))
        start, last = int(wanted[1]), min(int(wanted[2] or size - 1), size - 1)
        if start >= size:
            return _error("416 Range Not Satisfiable", "InvalidRange")
        described["Content-Range"] = f"bytes {start}-{last}/{size}"
        body = tuple(found.between(start, last + 1))
        return Answer(status="206 Partial Content", headers=described, body=body)

    def _list(self, query: Query) -> Answer:
        prefix = query.get("prefix", [""])[0]
        token = query.get("continuation-token", query.get("start-after", [""]))[0]
        delimiter = query.get("delimiter", [""])[0]
        found = self._bucket.listed(prefix, token)
        shown, rest = found[:LISTED_MAX], found[LISTED_MAX:]
        contents, folders = [], {}
        for key, one in shown:
            cut = key.find(delimiter, len(prefix)) if delimiter else -1
            if cut >= 0:
                folders[key[: cut + 1]] = True
                continue
            contents.append(
                f"<Contents><Key>{escape(key)}</Key><Size>{one.size}</Size>"
                f"<ETag>{escape(one.etag)}</ETag><StorageClass>STANDARD</StorageClass>"
                f"<LastModified>{one.modified:%Y-%m-%dT%H:%M:%S.000Z}</LastModified></Contents>"
            )
        return _xml(
            f"<ListBucketResult><Name>b</Name><Prefix>{escape(prefix)}</Prefix>"
            f"<KeyCount>{len(shown)}</KeyCount><MaxKeys>{LISTED_MAX}</MaxKeys>"
            f"<IsTruncated>{'true' if rest else 'false'}</IsTruncated>"
            + "".join(contents)
            + "".join(
                f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>"
                for one in folders
            )
            + "".join(
                f"<NextContinuationToken>{escape(key)}</NextContinuationToken>"
                for key, _ in shown[-1:]
                if rest
            )
            + "</ListBucketResult>"
        )

    def _head(self) -> tuple[str, str, dict[str, str]] | None:
        """The method, the target and the headers of the next request."""
        data = self._ahead
        while (end := data.find(b"\r\n\r\n")) < 0:
            more = self._client.recv(HEAD_BYTES_MAX)
            if not more or len(data) > HEAD_BYTES_MAX:
                return None
            data += more
        self._ahead = data[end + 4 :]
        first, *lines = data[:end].decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ", 2)
        pairs = (line.partition(":") for line in lines)
        return method, target, {name.lower(): value.strip() for name, _, value in pairs}

    def _body(self, size: int) -> memoryview:
        body = self._bucket.memory.take(size)
        done = min(size, len(self._ahead))
        body[:done], self._ahead = self._ahead[:done], self._ahead[done:]
        step = size if self._network.is_unlimited else STEP_BYTES
        while done < size:
            # In one call, so that the interpreter does nothing while bytes come in.
            wanted = body[done : done + step]
            count = self._client.recv_into(wanted, len(wanted), socket.MSG_WAITALL)
            if not count:
                raise ConnectionError("The client closed its connection within a request.")
            self._network.pass_bytes("in", count)
            done += count
        return body

    def _send(self, method: str, answer: Answer) -> None:
        size = sum(map(len, answer.body))
        lines = [f"HTTP/1.1 {answer.status}", f"Content-Length: {size}"]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        self._client.sendall("\r\n".join([*lines, "", ""]).encode())
        if method == "HEAD":
            return
        for piece in answer.body:
            step = max(1, len(piece)) if self._network.is_unlimited else STEP_BYTES
            for at in range(0, len(piece), step):
                self._network.pass_bytes("out", len(piece[at : at + step]))
                self._client.sendall(piece[at : at + step])


def _xml(text: str, status: str = "200 OK") -> Answer:
    body = memoryview(f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode())
    return Answer(status=status, headers={"Content-Type": "application/xml"}, body=(body,))


def _error(status: str, code: str) -> Answer:
    return _xml(f"<Error><Code>{code}</Code><Message>{code}</Message></Error>", status)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.objects.server")
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--mbit-per-second", type=float, default=0.0, help="0 for no limit")
    args = parser.parse_args()
    network = Network(args.latency_ms / 1000, args.mbit_per_second * 1e6 / 8)
    bucket = Bucket()
    with socket.create_server(("127.0.0.1", 0), backlog=256) as server:
        print(f"http://127.0.0.1:{server.getsockname()[1]}", flush=True)
        while True:
            client, _ = server.accept()
            one = Connection(client, bucket, network)
            threading.Thread(target=one.serve, daemon=True).start()


if __name__ == "__main__":
    main()
