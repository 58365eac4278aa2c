"""The page: complete in itself, honest about what is missing, safe against what is in the data."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from weirlab.devices.profile.page import gather, tell
from weirlab.report import bundle

from ....report.outline import Outline, charts


def html(run: Any, models: Any, verification: Any = None) -> str:
    return tell(gather(run, models, verification)).html()


@pytest.fixture(scope="module")
def page(run, models, verification) -> str:
    return html(run, models, verification)


@pytest.fixture(scope="module")
def outline(page: str) -> Outline:
    return Outline(page)


def test_nothing_is_loaded_from_anywhere(outline: Outline) -> None:
    for tag, attributes in outline.elements:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            target = attributes.get(name)
            assert target is None or target.startswith("#"), (tag, name, target)
    policy = next(a["content"] for t, a in outline.elements if t == "meta" and "http-equiv" in a)
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_styles_import_nothing(page: str) -> None:
    style = re.search(r"<style>(.*?)</style>", page, re.S)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_the_page_stays_within_a_moderate_size(page: str) -> None:
    assert len(page.encode()) < 2_500_000


def test_every_chart_has_its_place_and_its_title(page: str, outline: Outline) -> None:
    places = {a["id"]: a for _, a in outline.elements if a.get("class") == "plot"}
    assert places.keys() == charts(page)["figures"].keys()
    for figure in charts(page)["figures"].values():
        assert figure["title"].replace("\u00a0", " ") in outline.text


def test_colours_of_charts_follow_the_scheme(page: str) -> None:
    embedded = charts(page)
    colours = set(
        re.findall(r"#[0-9a-f]{6}\b", json.dumps({k: v for k, v in embedded.items() if k != "light"}))
    )
    assert colours == set()
    used = set(re.findall(r"var\(--([a-z0-9-]+)\)", json.dumps(embedded["figures"])))
    assert used <= embedded["light"].keys()
    assert page.count("prefers-color-scheme: dark") == 1


def test_headings_leave_no_level_out(outline: Outline) -> None:
    assert outline.headings[0] == 1
    assert outline.headings.count(1) == 1
    assert all(
        after - before <= 1 for before, after in zip(outline.headings, outline.headings[1:], strict=False)
    )


def test_links_within_the_page_lead_somewhere(outline: Outline) -> None:
    ids = [a["id"] for _, a in outline.elements if "id" in a]
    assert len(ids) == len(set(ids))
    links = {a["href"] for t, a in outline.elements if t == "a" and a.get("href")}
    assert {link[1:] for link in links if link} <= set(ids)


def test_tables_scroll_inside_their_own_container(page: str) -> None:
    markup = page.split('<script type="application/json"')[0]
    assert markup.count("<table") == markup.count('<div class="scroll"') > 0


def test_a_measured_device_carries_no_banner(outline: Outline) -> None:
    assert "Simulated device" not in outline.text
    assert "Measured on iptables-legacy in Linux network namespaces on host example" in outline.text


def test_a_simulated_device_is_announced_before_all_else(simulated_run, models) -> None:
    text = Outline(html(simulated_run, models)).text
    banner = "Simulated device: nothing here was measured."
    assert text.index(banner) < text.index("The simulated device carried")
    assert "Measured delay" not in text
    assert "Predicted against simulated" in text


def test_what_a_run_lacks_is_said(small_run) -> None:
    bare = replace(small_run, frame=small_run.frame.head(0), buckets=small_run.buckets.head(0), files={})
    bare.manifest = SimpleNamespace(
        **{**vars(small_run.manifest), "scenario": {}, "facts": {}, "calibration": None}
    )
    page = html(bare, {})
    text = Outline(page).text
    for heading in (
        "Delay",
        "Loss",
        "Threshold and rules",
        "Were the predictions right?",
        "Delay distribution",
    ):
        assert f"{heading} Not measured: " in text
    assert "What the models learned Not measured: no model was fitted" in text
    assert "no calibration was in force" in text
    assert len(page) < 100_000


def test_a_single_trial_makes_a_report(small_run) -> None:
    single = small_run.frame.filter(pl.col("valid")).head(1).with_columns(role=pl.lit("single"))
    text = Outline(html(replace(small_run, frame=single), {})).text
    assert "carried up to at least" in text


def test_a_run_of_held_out_trials_alone_still_answers(small_run, models) -> None:
    only = replace(small_run, frame=small_run.frame.filter(pl.col("role") == "verify"))
    text = Outline(html(only, models)).text
    assert "with 200 rules without loss" in text


def test_trials_in_which_nothing_arrived_are_no_obstacle(small_run, models) -> None:
    silent = pl.col("index") % 5 == 0
    delays = [name for name in small_run.frame.columns if name.startswith("delay_") or name == "jitter_ns"]
    frame = small_run.frame.with_columns(
        *(pl.when(silent).then(None).otherwise(name).alias(name) for name in delays),
        loss_ratio=pl.when(silent).then(1.0).otherwise("loss_ratio"),
        forwarding_pps=pl.when(silent).then(0.0).otherwise("forwarding_pps"),
    )
    observed = [row for row in small_run.observations("verify") if row.forwarding_pps > 0]
    partly = replace(small_run, frame=frame)
    partly.observations = lambda role=None: observed  # type: ignore[method-assign]
    assert len(html(partly, models)) > 500_000


def test_markup_in_the_data_stays_text(small_run, models) -> None:
    nasty = "</script><script>alert(1)</script><b>"
    frame = small_run.frame.with_columns(dut=pl.lit(nasty), invalid=pl.lit(nasty), valid=pl.col("index") > 9)
    evil = replace(small_run, frame=frame)
    evil.manifest = SimpleNamespace(
        **{
            **vars(small_run.manifest),
            "host": nasty,
            "scenario": {"name": nasty},
            "facts": {"tool": nasty, "command": nasty},
        }
    )
    page = html(evil, models)
    assert "<script>alert" not in page
    assert page.count("<script") == page.count("</script>") == 3


def test_the_way_to_repeat_the_run_is_given(outline: Outline) -> None:
    assert "weir profile --dut iptables-legacy" in outline.text
    assert "weir report synthetic-0000" in outline.text
    assert "dut: iptables-legacy" in outline.text


def test_the_bundle_cannot_end_its_script_element() -> None:
    assert "</script" not in bundle.script().lower()


def test_the_page_carries_the_licences_of_what_draws_its_charts(page: str) -> None:
    for holder in ("University of Washington Interactive Data Lab", "Mike Bostock", "Cynthia Brewer"):
        assert holder in page
    assert "drawn by Vega, Vega-Lite, Vega-Embed and D3; their licences are in its source" in page
