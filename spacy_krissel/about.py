"""Version of the package. This module imports nothing, so that setup.cfg can read it without the
dependencies.
"""

__version__ = "0.1.0"
