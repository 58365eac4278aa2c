"""A report told in sections: an answer, key numbers, then figures and tables in order.

Kinds of runs differ in what they tell; this page is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weirlab import files
from weirlab.report.conditions import Pairs, Table, scenario_text
from weirlab.report.export import FORMATS, write_figures
from weirlab.report.figure import Figure
from weirlab.report.shell import assembled
from weirlab.report.summary import Tile


@dataclass(frozen=True)
class Chapter:
    """A section of the page; ``missing`` is what to say where it has nothing to show."""

    key: str
    title: str
    short: str = ""
    """For the navigation; the title if empty."""
    intro: str = ""
    facts: Pairs | None = None
    said: tuple[str, ...] = ()
    """Sentences, as a list."""
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    details: tuple[Table, ...] = ()
    """Tables that are folded away."""
    missing: str = "Not measured."

    @property
    def lead(self) -> str:
        """The figures' caption if they share one, to be said once."""
        captions = {figure.caption for figure in self.figures}
        return captions.pop() if len(captions) == 1 else ""

    @property
    def switchable(self) -> bool:
        """No figure has a switch between quantities."""
        return False

    @property
    def empty(self) -> bool:
        return not (self.facts or self.said or self.figures or self.tables or self.details)


@dataclass(frozen=True)
class Story:
    """All that a page says. ``manifest`` is the run's, as a mapping."""

    subject: str
    """What was tested, for the page's title."""
    manifest: Mapping[str, Any]
    simulated: bool
    answer: str
    lede: tuple[str, ...]
    caution: str
    """What the reader must know before believing the answer; empty for nothing."""
    place: str
    """``iptables-legacy in Linux network namespaces on host ...``."""
    tiles: tuple[Tile, ...]
    chapters: tuple[Chapter, ...]
    terms: tuple[tuple[str, str], ...]
    """Words and what they mean here."""
    where_note: str = ""

    @property
    def figures(self) -> list[Figure]:
        return [figure for chapter in self.chapters for figure in chapter.figures]


def place(manifest: Mapping[str, Any], lab: str, device: str) -> str:
    """One phrase: what was tested, and where."""
    if lab == "sim":
        return "a simulated device (a model in software with set parameters)"
    where = {"netns": "Linux network namespaces"}.get(lab, lab)
    host, kernel = manifest.get("host", "an unnamed host"), manifest.get("kernel")
    return f"{device} in {where} on host {host}" + (f", kernel {kernel}" if kernel else "")


def build(story: Story, out: Path, *, command: str | None = None) -> Path:
    """Write the page to ``out`` and return it; raises ``StoreError`` where that is impossible."""
    files.write_bytes(out, render(story, command=command).encode())
    return out


def render(story: Story, *, command: str | None = None) -> str:
    """The page's HTML."""
    manifest = story.manifest
    facts = manifest.get("facts") or {}
    scenario = manifest.get("scenario") or {}
    return assembled(
        "story.html",
        story.figures,
        subject=story.subject,
        run_id=manifest.get("run_id", ""),
        run_name=scenario.get("name") or "Run",
        simulated=story.simulated,
        answer=story.answer,
        lede=story.lede,
        caution=story.caution,
        place=story.place,
        where_note=story.where_note,
        tiles=story.tiles,
        story=story.chapters,
        terms=story.terms,
        quantities={},
        command=command or facts.get("command") or "weir run scenario.yaml",
        scenario=scenario_text(scenario),
    )


def export_plots(story: Story, dest: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write every figure into the folder ``dest``, made if missing; returns the files written.

    Raises ``InputError`` for an unknown format, ``StoreError`` when ``dest`` cannot be written.
    """
    return write_figures(story.figures, dest, formats)
