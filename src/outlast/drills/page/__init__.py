"""The report of a drill as an HTML page: one module per section, joined by `document`."""

from outlast.drills.page.cost import EXAMPLE_PRICES, MachinePrices
from outlast.drills.page.document import page, write_html

__all__ = ["EXAMPLE_PRICES", "MachinePrices", "page", "write_html"]
