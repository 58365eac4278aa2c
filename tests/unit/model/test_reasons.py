from __future__ import annotations

import copy
import json

import pytest

from weirlab.model import QueueingModel
from weirlab.model.base import Reason, refusal
from weirlab.testing.queue import QueueDevice, profile


@pytest.fixture(scope="module")
def constant() -> QueueingModel:
    return QueueingModel.fit(profile(QueueDevice(), packets=500))


@pytest.mark.parametrize(
    ("setting", "helps"),
    [
        ((1e5, 64, 100, 1.0), "--arrivals constant"),
        ((1e5, 64, 5000), "weir profile --rules"),
        ((1e5, 1518, 100), "weir profile --frame"),
        ((1e8, 64, 100), "weir profile --loads"),
    ],
)
def test_who_would_extrapolate_is_told_which_option_helps(
    constant: QueueingModel, setting: tuple[float, ...], helps: str
) -> None:
    message = str(refusal("plan", constant.predict(*setting).why))
    assert helps in message
    assert "--extrapolate" in message


def test_a_reason_is_a_text_like_any_other() -> None:
    reason = Reason("too far", "come closer")
    assert json.loads(json.dumps(reason)) == reason == "too far"
    assert copy.deepcopy(reason).remedy == "come closer"
