"""A metrics page for Prometheus, if a port is set."""

from outlast.metrics.exporter import METRICS_HOST, METRICS_PORT, METRICS_SETTINGS, Exporter, Metric

__all__ = ["METRICS_HOST", "METRICS_PORT", "METRICS_SETTINGS", "Exporter", "Metric"]
