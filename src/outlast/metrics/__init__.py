"""A page with a few figures for Prometheus, where a port is set."""

from outlast.metrics.exporter import Exporter, Metric
from outlast.metrics.settings import METRICS_HOST, METRICS_PORT, METRICS_SETTINGS

__all__ = ["METRICS_HOST", "METRICS_PORT", "METRICS_SETTINGS", "Exporter", "Metric"]
