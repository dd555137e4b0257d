"""Version of the package, in a module that imports nothing: setup.cfg reads it without the dependencies."""

__version__ = "0.1.0"
