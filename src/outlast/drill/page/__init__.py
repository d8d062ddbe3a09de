"""The report of a drill as a page: one file per picture, joined by `document`."""

from outlast.drill.page.document import page, write_html
from outlast.drill.page.money import EXAMPLE, Prices

__all__ = ["EXAMPLE", "Prices", "page", "write_html"]
