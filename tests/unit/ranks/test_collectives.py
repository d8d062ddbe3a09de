"""Which errors may come from another rank."""

import pytest
import torch.distributed

from outlast.ranks.collectives import is_collective_failure


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[gloo/transport/tcp/pair.cc:538] Connection closed by peer [127.0.0.1]:57"),
        RuntimeError("Connection reset by peer"),
        torch.distributed.DistBackendError("NCCL error"),
        torch.distributed.DistNetworkError("the client socket has failed"),
    ],
)
def test_failures_of_collectives_are_recognized(error: Exception) -> None:
    assert is_collective_failure(error)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("mat1 and mat2 shapes cannot be multiplied"),
        ValueError("Connection reset by peer"),
        KeyError("gloo"),
        OSError("Broken pipe"),
    ],
)
def test_errors_of_the_program_are_its_own(error: Exception) -> None:
    assert not is_collective_failure(error)
