"""Write the manifests of a workload: one file per object, each line with its reason."""

from outlast.manifests.render.errors import RenderError
from outlast.manifests.render.files import RenderedFile, as_stream, write_files
from outlast.manifests.render.rendering import render

__all__ = ["RenderError", "RenderedFile", "as_stream", "render", "write_files"]
