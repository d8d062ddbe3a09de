"""The Pods of a rendered JobSet form one world: real torchrun agents, with the rendered variables.

The agents run on this machine instead of in Pods, so only the address of the first is replaced.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.servers.ports import free_port
from tests.unit.manifests.render_cases import MULTI_NODE, Rendering, rendered

PROGRAM = """\
import json, os, pathlib, sys
from outlast.run.place import url_for

names = ("RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_MAX_RESTARTS")
known = {**{name: os.environ[name] for name in names}, "url": url_for(None, os.environ)}
pathlib.Path(sys.argv[1], os.environ["RANK"]).write_text(json.dumps(known))
"""


def pod_environ(rendering: Rendering, *, index: int, port: int) -> dict[str, str]:
    """What Kubernetes gives to a container: the values, and the fields of its Pod."""
    fields = {"PET_NODE_RANK": str(index), "JOBSET_RESTART_ATTEMPT": "2"}
    given = {name: value for name, value in rendering.env.items() if isinstance(value, str)}
    given |= fields | {"JOB_COMPLETION_INDEX": str(index), "PET_RDZV_ENDPOINT": f"localhost:{port}"}
    given["PET_RDZV_ID"] = given["PET_RDZV_ID"].replace("$(JOBSET_RESTART_ATTEMPT)", "2")
    for name in ("HOME", "USER", "OUTLAST_METRICS_PORT"):
        del given[name]
    return {**os.environ, **given}


@pytest.mark.needs("torch")
def test_the_pods_of_a_rendered_jobset_are_one_world_with_one_url(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    rendering = rendered(
        MULTI_NODE,
        nodes="2",
        accelerator="{type: nvidia-l4, count: 2}",
        command=f"[{sys.executable}, train.py, .]",
        checkpoint__url="gs://lab-runs/big",
        resources="{}",
    )
    port = free_port()
    command = rendering.container["command"]
    assert command[:3] == ["outlast", "exec", "--"]
    agents = [
        subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=tmp_path,
            env=pod_environ(rendering, index=index, port=port),
        )
        for index in (1, 0)
    ]
    try:
        codes = [agent.wait(PATIENCE_SECONDS) for agent in agents]
    finally:
        # Each ends its ranks before it exits.
        for agent in agents:
            agent.terminate()
        for agent in agents:
            agent.wait(PATIENCE_SECONDS)

    assert codes == [0, 0]
    ranks = [json.loads((tmp_path / str(rank)).read_text()) for rank in range(4)]
    for rank, known in enumerate(ranks):
        assert known == {
            "RANK": str(rank),
            "WORLD_SIZE": "4",
            "TORCHELASTIC_RUN_ID": "big-2",
            "TORCHELASTIC_MAX_RESTARTS": "0",
            "url": "gs://lab-runs/big",
        }
