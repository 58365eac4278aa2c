"""Kinds of measurement, a folder each: what is asked for, how it is carried out, what is found and shown.

A study is a class derived from :class:`Study`, named in :mod:`weirlab.studies.registry`, or by another
package in the entry-point group ``weirlab.studies``. ``docs/add-a-study.md`` shows one whole.
"""

from __future__ import annotations

from weirlab.jobs.work import Work
from weirlab.studies.contract import Findings, Ground, Outcome, Study, Summary

__all__ = ["Findings", "Ground", "Outcome", "Study", "Summary", "Work"]
