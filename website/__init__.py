"""The documentation site: `make site` builds it from docs/."""
