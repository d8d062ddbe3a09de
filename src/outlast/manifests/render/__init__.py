"""Render the manifests of a workload: one file per object, with comments that explain why."""

from outlast.manifests.render.files import RenderedFile, as_stream, write_files
from outlast.manifests.render.rendering import render
from outlast.manifests.render.resolved import RenderError

__all__ = ["RenderError", "RenderedFile", "as_stream", "render", "write_files"]
