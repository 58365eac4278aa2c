"""The numbering plan: what a document may say, and how it is read."""

from __future__ import annotations

from weirlab.studies.voice.plan.load import Book, json_schema, load, loads
from weirlab.studies.voice.plan.model import Plan

__all__ = ["Book", "Plan", "json_schema", "load", "loads"]
