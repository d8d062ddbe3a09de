"""The settings of the metrics page: their names, what they take and what they mean."""

from outlast._base.settings import Setting


def _parse_port(given: object) -> int:
    try:
        port = int(given) if isinstance(given, int | str) else -1
    except ValueError:
        port = -1
    if not 0 <= port <= 65535:
        raise ValueError("A port is a whole number from 0 to 65535.")
    return port


def _parse_host(given: object) -> str:
    if not isinstance(given, str):
        raise ValueError("A host name or an address is expected.")
    return given


METRICS_PORT: Setting[int | None] = Setting(
    keyword="metrics_port",
    variable="OUTLAST_METRICS_PORT",
    default=None,
    default_text="none, so there is no page",
    parse=_parse_port,
    meaning="The port of a page with metrics for Prometheus.",
    hint="Give a free port, for example 9464.",
)
METRICS_HOST = Setting(
    keyword="metrics_host",
    variable="OUTLAST_METRICS_HOST",
    default="127.0.0.1",
    default_text="127.0.0.1",
    parse=_parse_host,
    meaning="The address on which that page listens; in a Pod, 0.0.0.0 lets Prometheus in.",
    hint="Give 127.0.0.1, or 0.0.0.0 for all networks.",
)

METRICS_SETTINGS: tuple[Setting[object], ...] = (METRICS_PORT, METRICS_HOST)
