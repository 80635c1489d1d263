"""The hook of mkdocs.yml: mkdocs loads it as a single file, outside the package `tools`."""

from tools.site import on_files, on_page_markdown

__all__ = ["on_files", "on_page_markdown"]
