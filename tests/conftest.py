"""Which tests this machine can run, and how hypothesis searches."""

from __future__ import annotations

import functools

import pytest
from hypothesis import settings

from weirlab.lab import doctor

# The same examples in every run and no deadline: a slow machine or an unlucky draw fails nothing.
settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.load_profile("repeatable")


@functools.cache
def missing_for_namespaces() -> str | None:
    """Why no labs in network namespaces can be made here; None where they can."""
    return doctor.missing_for_namespaces()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("netns") and (reason := missing_for_namespaces()):
        pytest.skip(f"needs a lab in network namespaces; {reason}")
