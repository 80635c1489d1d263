"""The version that is installed. Looking it up takes time, so it is a module of its own."""

from importlib.metadata import version

__version__ = version("jigsawmil")
