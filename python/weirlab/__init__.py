"""Weir measures, models and predicts what network gear does to real-time traffic."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("weirlab")
except PackageNotFoundError:  # running from a source tree that was never installed
    __version__ = "0.0.0"
