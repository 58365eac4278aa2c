"""Weir measures, models and predicts what network gear does to real-time traffic.

For notebooks and scripts: :func:`run`, :func:`profile`, :func:`resume`, :func:`runs`, :func:`open_run`,
:func:`charts`, :func:`thresholds`, :func:`fit`, :func:`predict`, :func:`plan`, :func:`assess` and
:func:`command`; :mod:`weirlab.trace` reads captures. See ``docs/python.md``.
"""

# Type checkers read __init__.pyi. Every module imports this package, so it must not import them.

__all__ = (
    "__version__",
    "assess",
    "charts",
    "command",
    "fit",
    "open_run",
    "plan",
    "predict",
    "profile",
    "resume",
    "run",
    "runs",
    "thresholds",
)


def __dir__():
    return sorted(__all__)


def __getattr__(name):
    """Import an attribute on first use: importing it takes longer than many commands."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name != "__version__":
        from importlib import import_module

        return getattr(import_module("weirlab.scripting"), name)
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("weirlab")
    except PackageNotFoundError:  # running from a source tree that was never installed
        return "0.0.0"
