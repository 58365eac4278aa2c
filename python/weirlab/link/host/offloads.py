"""Offloads of an interface in the calling thread's namespace, by their names in ``ethtool -k``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyroute2.ethtool.ioctl import IoctlEthtool


def names(interface: str) -> tuple[str, ...]:
    """All offloads that the kernel lists."""
    with _features(interface) as (_, features):
        return tuple(features.keys())


def differing(interface: str, wanted: Mapping[str, bool]) -> dict[str, bool]:
    """Offloads that can be changed and are not as ``wanted``, with their present state."""
    with _features(interface) as (_, features):
        return _differing(features, wanted)


def switch(interface: str, wanted: Mapping[str, bool]) -> None:
    """Set offloads as ``wanted``, as far as they can be changed."""
    with _features(interface) as (ethtool, features):
        differing = _differing(features, wanted)
        for feature in differing:
            features.set_value(feature, wanted[feature])
        if differing:
            ethtool.set_features(features)


def _differing(features: Any, wanted: Mapping[str, bool]) -> dict[str, bool]:
    return {
        name: bool(features[name])
        for name, value in wanted.items()
        if name in features and features.is_available(name) and bool(features[name]) != value
    }


@contextmanager
def _features(interface: str) -> Iterator[tuple[Any, Any]]:
    ethtool = IoctlEthtool(interface)
    try:
        yield ethtool, ethtool.get_features()
    finally:
        ethtool.close()
