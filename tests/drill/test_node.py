"""A flex-start node's own clock, read by a process that sees the world as a Pod does."""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from outlast.interruption.node import ANNOTATION, SERVICE_ACCOUNT
from tests.programs import Program
from tests.stubs.kubernetes import ApiServer, node_with

PROGRAM = """
import outlast, sys
with outlast.Guard(grace_seconds=600) as guard:
    print("heard", guard.wait(), guard.notice.source, flush=True)
sys.exit(guard.exit_code)
"""


@pytest.mark.needs("openssl", "mount-namespace")
def test_the_annotation_of_the_pod_s_node_gives_notice_ahead_of_the_expiry(tmp_path: Path) -> None:
    expiry = datetime.now(UTC) + timedelta(seconds=300)
    mounted = f"mount -t tmpfs none /run && mkdir -p {SERVICE_ACCOUNT} && cp $0/* {SERVICE_ACCOUNT}"
    in_a_pod = ["unshare", "--mount", "sh", "-c", f'{mounted} && exec "$@"', str(tmp_path)]
    with ApiServer(tmp_path) as api:
        api.answers = [(200, node_with({ANNOTATION: expiry.isoformat()}))]
        env = {"OUTLAST_NODE_NAME": "gke-flex-1", **api.environ}
        with Program([*in_a_pod, sys.executable, "-c", PROGRAM], env=env) as program:
            program.wait_for("heard True expiry")

            assert program.wait() == 75
