from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from weirlab.trace.facts import Analysis

from . import made


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[Analysis], list[dict[str, Any]]]:
    """Lets the engine give this answer; tells what it was asked."""
    return lambda analysis: made.answering(monkeypatch, analysis)
