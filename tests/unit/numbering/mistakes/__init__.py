"""Mistakes that ``weir voice check`` finds: how each is planted into the small plan, and the sentence."""

from __future__ import annotations

from .engines import ENGINES
from .numbers import NUMBERS
from .planted import PUBLIC, ROUTE, Planted
from .records import RECORDS
from .routes import ROUTES

__all__ = ["PLANTED", "PUBLIC", "ROUTE", "Planted"]

PLANTED = (*ROUTES, *ENGINES, *RECORDS, *NUMBERS)
