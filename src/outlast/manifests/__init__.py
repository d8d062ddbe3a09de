"""Manifests: write the right ones (`render/`), review anyone's (`lint/`, `rules/`)."""
