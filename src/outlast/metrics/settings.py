"""The settings of the metrics page: their names, what they take and what they mean."""

from outlast._base.settings import Setting, text_of, whole_number_to

METRICS_PORT: Setting[int | None] = Setting(
    keyword="metrics_port",
    variable="OUTLAST_METRICS_PORT",
    default=None,
    default_text="none, so there is no page",
    parse=whole_number_to(65535, "A port"),
    meaning="The port of a page with metrics for Prometheus.",
    hint="Give a free port, for example 9464.",
)
METRICS_HOST = Setting(
    keyword="metrics_host",
    variable="OUTLAST_METRICS_HOST",
    default="127.0.0.1",
    default_text="127.0.0.1",
    parse=text_of("A host name or an address"),
    meaning="The address on which that page listens; in a Pod, 0.0.0.0 lets Prometheus in.",
    hint="Give 127.0.0.1, or 0.0.0.0 for all networks.",
)

METRICS_SETTINGS: tuple[Setting[object], ...] = (METRICS_PORT, METRICS_HOST)
