"""A report told in sections: an answer, key numbers, then figures and tables in order.

Kinds of runs differ in what they tell; this page is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from weirlab.report.figure import Figure
from weirlab.report.shell import assembled
from weirlab.report.tables import Pairs, Table, Tile


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

    def html(self) -> str:
        """The whole page as one file."""
        manifest = self.manifest
        facts = manifest.get("facts") or {}
        scenario = manifest.get("scenario") or {}
        return assembled(
            "story.html",
            self.figures,
            subject=self.subject,
            run_id=manifest.get("run_id", ""),
            run_name=scenario.get("name") or "Run",
            simulated=self.simulated,
            answer=self.answer,
            lede=self.lede,
            caution=self.caution,
            place=self.place,
            where_note=self.where_note,
            tiles=self.tiles,
            story=self.chapters,
            terms=self.terms,
            quantities={},
            command=facts.get("command") or "weir run scenario.yaml",
            scenario=scenario_text(scenario),
        )


def place(manifest: Mapping[str, Any], lab: str, device: str) -> str:
    """One phrase: what was tested, and where."""
    if lab == "sim":
        return "a simulated device (a model in software with set parameters)"
    where = {"netns": "Linux network namespaces"}.get(lab, lab)
    host, kernel = manifest.get("host", "an unnamed host"), manifest.get("kernel")
    return f"{device} in {where} on host {host}" + (f", kernel {kernel}" if kernel else "")


def scenario_text(content: Mapping[str, Any] | None) -> str:
    """``content``, a scenario as the manifest keeps it, as YAML; empty for nothing."""
    if not content:
        return ""
    return str(
        yaml.safe_dump(_plain_values(content), sort_keys=False, allow_unicode=True, width=100)
    ).rstrip()


def _plain_values(value: Any) -> Any:
    """YAML-safe copy: mappings, sequences and scalars only."""
    if isinstance(value, Mapping):
        return {str(k): _plain_values(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_values(v) for v in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
