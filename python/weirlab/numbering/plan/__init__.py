"""The numbering plan: what a document may say, and how it is read."""

from __future__ import annotations

from weirlab.numbering.plan.load import PlanDocument, json_schema, load, loads, of_scenario

__all__ = ["PlanDocument", "json_schema", "load", "loads", "of_scenario"]
