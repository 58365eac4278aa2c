"""What people see of a run: one HTML file, and every figure as PNG, SVG and CSV.

``build`` writes the page, ``export_plots`` the files, ``figures`` gives the charts to
notebooks. All three take a run, its models by name and, optionally, a ``Verification``.
"""

from __future__ import annotations

from collections.abc import Mapping

from weirlab.model import ErrorRow
from weirlab.report.axes import Chart
from weirlab.report.export import FORMATS, export_plots
from weirlab.report.figure import draw
from weirlab.report.page import build
from weirlab.report.source import Judgement, Predictor, RunData, Verification, gather


def figures(
    run: RunData, models: Mapping[str, Predictor], verification: Verification | None = None
) -> dict[str, Chart]:
    """The report's charts by name, in its order, styled and titled."""
    return {figure.key: figure.titled() for figure in draw(gather(run, models, verification))}


__all__ = ["FORMATS", "ErrorRow", "Judgement", "RunData", "Verification", "build", "export_plots", "figures"]
