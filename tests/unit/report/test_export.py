"""Every figure as files, and as a chart for notebooks."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from weirlab.errors import InputError, StoreError
from weirlab.report.export import rendered, static, write_figures
from weirlab.report.palette import LIGHT
from weirlab.studies.profile.page import gather
from weirlab.studies.profile.page.drawing import draw


def test_each_figure_is_written_in_each_format(small_run, models, tmp_path: Path) -> None:
    drawn = draw(gather(small_run, models))
    files = write_figures(drawn, tmp_path / "plots", ("svg", "csv"))
    names = {file.name for file in (tmp_path / "plots").iterdir()}
    assert names == {file.name for file in files}
    assert names == {f"{figure.key}.{suffix}" for figure in drawn for suffix in ("svg", "csv")}


def test_csv_holds_what_is_drawn_with_units_in_the_header(small_run, models, tmp_path: Path) -> None:
    write_figures(draw(gather(small_run, models)), tmp_path, ("csv",))
    table = pl.read_csv(tmp_path / "delay-over-load-64-byte-frames.csv", infer_schema_length=None)
    delays = ["p50_us", "p99_us", "mean_us"]
    bands = [f"{name}_{end}" for name in delays for end in ("low", "high")]
    assert table.columns == ["source", "setup", "position", "load_kpps", *delays, *bands]
    assert set(table["source"].to_list()) == {"trial", "queueing", "piecewise"}


def test_images_are_what_their_names_say(small_run, models) -> None:
    figure = draw(gather(small_run, models))[0]
    assert rendered(figure, "png").startswith(b"\x89PNG\r\n")
    drawing = rendered(figure, "svg").decode()
    assert drawing.startswith("<svg")
    assert "var(--" not in drawing
    assert LIGHT["ramp-0"] in drawing


def test_a_picture_alone_says_what_it_shows(small_run, models) -> None:
    for figure in draw(gather(small_run, models)):
        title = static(figure, "a device, 2026-11-22")["title"]
        assert " ".join(title["text"]) == figure.title
        below = " ".join(title["subtitle"])
        assert below.startswith(figure.panel)
        assert below.endswith("a device, 2026-11-22")
        assert ("median" in below) is figure.switchable


def test_the_page_and_the_files_draw_the_same_definition(small_run, models) -> None:
    for figure in draw(gather(small_run, models)):
        alone = figure.standalone()
        shared = {key: value for key, value in alone.items() if key not in ("title", "config", "description")}
        assert shared == {k: v for k, v in figure.chart.to_dict().items() if k != "config"}


def test_all_charts_compile(run, models) -> None:
    from weirlab.report import bundle

    for figure in draw(gather(run, models)):
        drawing = bundle.svg(static(figure))
        assert "NaN" not in drawing, figure.key
        assert "undefined" not in re.sub(r"<style.*?</style>", "", drawing), figure.key


def test_charts_for_notebooks_are_valid_and_titled(small_run, models) -> None:
    for figure in draw(gather(small_run, models)):
        assert figure.titled().to_dict()["title"]["text"], figure.key


def test_an_unknown_format_is_refused_before_anything_is_written(small_run, models, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'gif' is not known; choose from png, svg, csv"):
        write_figures(draw(gather(small_run, models))[:1], tmp_path / "plots", ("csv", "gif"))
    assert not (tmp_path / "plots").exists()


def test_a_folder_that_cannot_be_made_is_named(small_run, models, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="cannot make the folder"):
        write_figures(draw(gather(small_run, models))[:1], tmp_path / "file" / "plots")
