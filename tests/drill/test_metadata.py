"""A preemption that the metadata server announces, in a real process."""

from tests.programs import python
from tests.stubs.metadata import MetadataServer


def test_a_preemption_gives_notice_and_the_interrupted_code() -> None:
    source = """
        import sys, outlast
        with outlast.Guard(grace_seconds=60) as guard:
            print("ready")
            guard.wait()
            print("heard", guard.notice.source, round(guard.notice.deadline - guard.notice.arrived))
        sys.exit(guard.exit_code)
    """
    with MetadataServer() as server:
        env = {"GCE_METADATA_HOST": server.host, "KUBERNETES_SERVICE_HOST": "127.0.0.1"}
        with python(source, env=env) as program:
            program.wait_for("ready")
            server.set("instance/preempted", "TRUE")

            program.wait_for("heard preemption 30")
            assert program.wait() == 75
