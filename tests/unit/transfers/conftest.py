"""What the tests of jobs have, for the studies that are made of them."""

from __future__ import annotations

from ..jobs.conftest import DEVICE, Told, beds, scripted, store, told

__all__ = ["DEVICE", "Told", "beds", "scripted", "store", "told"]
