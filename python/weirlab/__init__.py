"""Weir measures, models and predicts what network gear does to real-time traffic."""

from __future__ import annotations

TYPE_CHECKING = False  # Known to type checkers by its name; to import typing takes longer than this package.

if TYPE_CHECKING:
    __version__: str
else:

    def __getattr__(name: str) -> str:
        """``__version__``, when it is asked for: to read the metadata takes longer than many a command."""
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("weirlab")
        except PackageNotFoundError:  # running from a source tree that was never installed
            return "0.0.0"
