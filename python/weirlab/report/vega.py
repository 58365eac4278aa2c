"""Altair and vl-convert, which draw the charts: an optional extra, imported with the first chart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weirlab.base.extras import REPORT

if TYPE_CHECKING:
    import altair as alt
    import vl_convert
else:
    alt = REPORT.deferred("altair")
    vl_convert = REPORT.deferred("vl_convert")

__all__ = ["alt", "vl_convert"]
