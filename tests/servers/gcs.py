"""Google Cloud Storage's XML API, as far as obstore speaks it, in front of an S3 server.

The two are close. What differs is put right here: the precondition, which the S3 server then
checks honestly, the generation, and the answer to deleting what is not there.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import quote, unquote

from tests.servers.forwarding import Answer, Request, forward, serving

# The server wants to see a signature, and does not check it.
_S3_SIGNATURE = (
    "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, "
    "SignedHeaders=host, Signature=0"
)


@contextlib.contextmanager
def running_gcs(s3: str) -> Iterator[str]:
    """The address of a server for `STORAGE_EMULATOR_HOST` that keeps its objects in `s3`."""

    def answer(request: Request) -> Answer:
        if request.headers.get("authorization", "") != "Bearer emulator":
            return Answer(status=401)
        if request.method == "DELETE" and _head(s3, request).status == 404:
            return Answer(status=404)
        return _with_generation(forward(s3, _as_s3(request)))

    with serving(answer) as url:
        yield url


def _as_s3(request: Request) -> Request:
    headers = {
        name: value
        for name, value in request.headers.items()
        if name != "authorization" and not name.startswith("x-goog-")
    }
    headers["authorization"] = _S3_SIGNATURE
    if request.headers.get("x-goog-if-generation-match") == "0":
        headers["if-none-match"] = "*"
    # The client escapes more than S3 servers undo.
    path, mark, query = request.path.partition("?")
    return replace(request, headers=headers, path=quote(unquote(path)) + mark + query)


def _with_generation(answer: Answer) -> Answer:
    etag = answer.headers.get("etag", "").strip('"')
    if not etag:
        return answer
    generation = str(int(etag.partition("-")[0][:12], 16))
    return replace(answer, headers={**answer.headers, "x-goog-generation": generation})


def _head(s3: str, request: Request) -> Answer:
    return forward(s3, replace(_as_s3(request), method="HEAD", body=b""))
