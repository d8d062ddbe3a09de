"""The version of Outlast, apart from `outlast` itself, so that no module has to import that."""

__version__ = "0.1.0"
