"""Every figure as files, and as a chart for notebooks."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from weirlab.base.errors import InputError, StoreError
from weirlab.devices.profile.page import gather
from weirlab.devices.profile.page.drawing import draw
from weirlab.report.export import rendered, static, write_figures
from weirlab.report.figure import Figure
from weirlab.report.palette import LIGHT


@pytest.fixture(scope="module")
def drawn(small_run, models) -> list[Figure]:
    """Every figure of a run."""
    return draw(gather(small_run, models))


@pytest.fixture(scope="module")
def plots(drawn: list[Figure], tmp_path_factory) -> tuple[Path, list[Path]]:
    """Every figure of a run as files: the folder, and what was said to be in it."""
    folder = tmp_path_factory.mktemp("plots") / "new"
    return folder, write_figures(drawn, folder, ("svg", "csv"))


def test_each_figure_is_written_in_each_format(plots: tuple[Path, list[Path]], drawn: list[Figure]) -> None:
    folder, files = plots
    names = {file.name for file in folder.iterdir()}
    assert names == {file.name for file in files}
    assert names == {f"{figure.key}.{suffix}" for figure in drawn for suffix in ("svg", "csv")}


def test_csv_holds_what_is_drawn_with_units_in_the_header(plots: tuple[Path, list[Path]]) -> None:
    folder, _ = plots
    table = pl.read_csv(folder / "delay-over-load-64-byte-frames.csv", infer_schema_length=None)
    delays = ["p50_us", "p99_us", "mean_us"]
    bands = [f"{name}_{end}" for name in delays for end in ("low", "high")]
    assert set(table.columns) == {"source", "setup", "position", "load_kpps", "load_percent", *delays, *bands}
    assert set(table["source"].to_list()) == {"trial", "queueing", "piecewise"}


def test_images_are_what_their_names_say(drawn: list[Figure]) -> None:
    figure = drawn[0]
    assert rendered(figure, "png").startswith(b"\x89PNG\r\n")
    drawing = rendered(figure, "svg").decode()
    assert drawing.startswith("<svg")
    assert "var(--" not in drawing
    assert LIGHT["ramp-0"] in drawing


def test_a_picture_alone_says_what_it_shows(drawn: list[Figure]) -> None:
    for figure in drawn:
        title = static(figure, "a device, 2026-11-22")["title"]
        assert " ".join(title["text"]) == figure.title
        below = " ".join(title["subtitle"])
        assert below.startswith(figure.panel)
        assert below.endswith("a device, 2026-11-22")
        assert ("median" in below) is figure.switchable


def test_the_page_and_the_files_draw_the_same_definition(drawn: list[Figure]) -> None:
    for figure in drawn:
        alone = figure.standalone()
        shared = {key: value for key, value in alone.items() if key not in ("title", "config", "description")}
        assert shared == {k: v for k, v in figure.chart.to_dict().items() if k != "config"}


def test_all_charts_compile(run, models) -> None:
    from weirlab.report import bundle

    for figure in draw(gather(run, models)):
        drawing = bundle.svg(static(figure))
        assert "NaN" not in drawing, figure.key
        assert "undefined" not in re.sub(r"<style.*?</style>", "", drawing), figure.key


def test_charts_for_notebooks_are_valid_and_titled(drawn: list[Figure]) -> None:
    # Figures of one section differ in their data alone, and Altair takes long to check one.
    for figure in {figure.section: figure for figure in drawn}.values():
        assert figure.titled().to_dict()["title"]["text"], figure.key


def test_an_unknown_format_is_refused_before_anything_is_written(small_run, models, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'gif' is not known; choose from png, svg, csv"):
        write_figures(draw(gather(small_run, models))[:1], tmp_path / "plots", ("csv", "gif"))
    assert not (tmp_path / "plots").exists()


def test_a_folder_that_cannot_be_made_is_named(small_run, models, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="cannot make the folder"):
        write_figures(draw(gather(small_run, models))[:1], tmp_path / "file" / "plots")
