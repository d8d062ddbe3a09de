"""One system in a fresh process: save, restore, compare, and count the requests."""

import argparse
import json
import os
import time
import urllib.request
from pathlib import Path
from typing import Any

import torch

from bench.checkpoint import caches
from bench.checkpoint.state import mutate, size_of, transformer_with_adam
from bench.objects.systems import SYSTEMS

# Until the third save, the server touches memory that it has never used, which takes it long.
UNCOUNTED_SAVES = 2
ENVIRON = {
    "AWS_ALLOW_HTTP": "true",
    "AWS_ACCESS_KEY_ID": "x",
    "AWS_SECRET_ACCESS_KEY": "y",
    "AWS_REGION": "us-east-1",
    # What botocore adds to every body by itself, which nobody asked for.
    "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
    "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required",
}


def measure(name: str, endpoint: str, mib: int, saves: int) -> dict[str, Any]:
    os.environ.update(ENVIRON, AWS_ENDPOINT_URL=endpoint)
    tensors = transformer_with_adam(mib)
    resident = caches.reset_peak()
    one = SYSTEMS[name](tensors, endpoint)
    seen: dict[str, Any] = {"save": [], "stall": [], "restore": [], "size": size_of(tensors)}
    for step in range(1, 1 + UNCOUNTED_SAVES + saves):
        mutate(tensors)
        _requests(endpoint)
        started = time.perf_counter()
        stall = one.save(step)
        seconds = time.perf_counter() - started
        if step > UNCOUNTED_SAVES:
            seen["save"].append(seconds)
            seen["stall"].append(stall)
            seen["save_requests"] = _requests(endpoint)
    seen["save_memory"] = max(0, caches.peak() - resident) / size_of(tensors)
    expected = {name: tensor.clone() for name, tensor in tensors.items()}
    resident = caches.reset_peak()
    for _ in range(saves):
        for tensor in tensors.values():
            tensor.fill_(-1)
        _requests(endpoint)
        seen["restore"].append(one.restore())
        seen["restore_requests"] = _requests(endpoint)
        is_same = all(torch.equal(tensors[key], tensor) for key, tensor in expected.items())
        if not (is_same or one.is_raw):
            raise AssertionError("restored other bits than were saved")
    seen["restore_memory"] = max(0, caches.peak() - resident) / size_of(tensors)
    one.close()
    return seen


def _requests(endpoint: str) -> dict[str, int]:
    """The requests since the last call, by kind."""
    with urllib.request.urlopen(f"{endpoint}/-/counts") as answer:
        counts: dict[str, int] = json.load(answer)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("system")
    parser.add_argument("endpoint")
    parser.add_argument("mib", type=int)
    parser.add_argument("saves", type=int)
    parser.add_argument("result", type=Path)
    args = parser.parse_args()
    try:
        answer = measure(args.system, args.endpoint, args.mib, args.saves)
    except Exception as error:
        text = str(error).strip().splitlines()
        answer = {"error": f"{type(error).__name__}: {text[0] if text else ''}"[:160]}
        args.result.write_text(json.dumps(answer))
        raise
    args.result.write_text(json.dumps(answer))


if __name__ == "__main__":
    main()
