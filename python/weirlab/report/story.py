"""The content of a page: an answer, key numbers, then chapters of figures and tables; terms explained.

Every report is a :class:`Story`; ``shell`` turns it into one HTML file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

import yaml
from markupsafe import Markup, escape

from weirlab.base.quantities import NOTHING
from weirlab.records import caution
from weirlab.report.axes import QUANTITIES
from weirlab.report.figure import Figure
from weirlab.report.graphs import Drawing, Graphs
from weirlab.report.shell import assembled
from weirlab.report.tables import Pairs, Table, Tile

PAGE: Final = Path(__file__).with_name("glossary.md")
"""The glossary, also a page of the documentation."""
_ROW: Final = re.compile(r"^\| (\*\*.+?) \| (.+) \|$", re.M)
_NAME: Final = re.compile(r"\*\*(.+?)\*\*")
_PLAIN: Final = frozenset(
    {"call", "device", "engine", "evidence", "gap", "lab", "link", "load", "path", "run", "switch", "tree"}
)
"""What nobody looks up on a page about it."""


class Glossary:
    """The terms of Weir and ``own``, those of one page, which come first."""

    def __init__(self, own: Iterable[tuple[str, str]]) -> None:
        listed = [(name, meaning) for names, meaning in own for name in names.split(", ")]
        self._meanings = {name.lower(): meaning for name, meaning in (*_known(), *listed)}
        longest = sorted(self._meanings, key=len, reverse=True)
        self._terms = re.compile(rf"\b({'|'.join(map(re.escape, longest))})(?=s?\b)", re.I)

    def mark(self, text: str) -> Markup:
        """``text`` as HTML; a term that the page has for the first time gets its meaning as a tooltip."""
        parts, end = [], 0
        for found in self._terms.finditer(text):
            if (meaning := self._meanings.pop(found[0].lower(), None)) is not None:
                term = Markup('<dfn tabindex="0" title="{}">{}</dfn>').format(meaning, found[0])
                parts += [escape(text[end : found.start()]), term]
                end = found.end()
        return Markup("").join([*parts, escape(text[end:])])


@cache
def _known() -> tuple[tuple[str, str], ...]:
    return tuple(_rows(PAGE.read_text(encoding="utf-8")))


def _rows(page: str) -> Iterator[tuple[str, str]]:
    for names, meaning in _ROW.findall(page):
        for name in _NAME.findall(names):
            if name not in _PLAIN:
                yield name, re.sub(r"[`*]", "", meaning[:1].upper() + meaning[1:])


_DATE: Final = len("2026-01-31")


@dataclass(frozen=True)
class Chapter:
    """A section of the page; ``missing`` is shown if it has no content."""

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
    note: str = ""
    """Small print after the tables."""
    graphs: Graphs | None = None
    drawing: Drawing | None = None
    parts: tuple[Chapter, ...] = ()
    """Sections within this one."""
    folded: bool = False
    """Whether the page shows the title only, until a reader opens it."""

    @cached_property
    def drawn(self) -> tuple[Figure, ...]:
        """The figures with more than one point."""
        return tuple(figure for figure in self.figures if not figure.single_point)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences to show; a figure with a single point is reduced to its title."""
        return (*self.said, *(figure.title for figure in self.figures if figure.single_point))

    @property
    def lead(self) -> str:
        """The figures' caption if all have the same, to be shown once."""
        captions = {figure.caption for figure in self.drawn}
        return captions.pop() if len(captions) == 1 else ""

    @property
    def switchable(self) -> bool:
        """Whether a switch between median, p99 and mean applies to a figure."""
        return any(figure.switchable for figure in self.drawn)

    @property
    def begins_with_charts(self) -> bool:
        """Whether a reader sees a chart without opening anything."""
        return bool(self.drawn or self.graphs or self.drawing) and not self.folded

    @property
    def empty(self) -> bool:
        shown = (self.facts, self.sentences, self.drawn, self.tables, self.details, self.graphs, self.drawing)
        return not any(shown) and all(part.empty for part in self.parts)

    def whole(self) -> Iterator[Chapter]:
        """This chapter and its parts at any depth."""
        yield self
        for part in self.parts:
            yield from part.whole()


@dataclass(frozen=True)
class PageOrigin:
    """What a page was made from, and how to make it again."""

    name: str
    source: str
    """For the last line: ``run 20261122-...``."""
    date: str = ""
    """The date of the run or other source, UTC, as ``2026-11-22``; empty if unknown."""
    run_id: str = ""
    again: tuple[tuple[str, str], ...] = ()
    """Commands, each with what it does."""
    scenario: str = ""
    """YAML."""

    @classmethod
    def of_run(cls, manifest: Mapping[str, Any]) -> PageOrigin:
        """The origin of a run, from its manifest."""
        facts, scenario = manifest.get("facts") or {}, manifest.get("scenario") or {}
        run_id = str(manifest.get("run_id") or "")
        return cls(
            name=str(scenario.get("name") or "Run"),
            source=f"run {run_id}",
            date=str(manifest.get("created") or "")[:_DATE],
            run_id=run_id,
            again=(
                (
                    "This repeats the run.",
                    str(manifest.get("command") or facts.get("command") or "weir run scenario.yaml"),
                ),
                (
                    "This draws the report again from the stored run, without measuring.",
                    f"weir report {run_id or 'last'} --out report.html --plots plots",
                ),
            ),
            scenario=scenario_text(scenario),
        )


_UNFINISHED: Final = {
    "running": "The run is still in progress: this is what it has measured so far.",
    "interrupted": "The run was interrupted: this is what it had measured until then.",
    "failed": "The run failed: this is what it had measured until then.",
}


@dataclass(frozen=True, kw_only=True)
class Story:
    """The whole content of a page. ``manifest`` is the run's, as a mapping; empty for pages without a run."""

    subject: str
    """What was tested, for the page's title."""
    answer: str
    tiles: tuple[Tile, ...]
    """Key numbers; those without a value are left out."""
    chapters: tuple[Chapter, ...]
    manifest: Mapping[str, Any] = field(default_factory=dict)
    simulated: bool = False
    lede: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    """Sentences below the key numbers."""
    caution: str = ""
    """What the reader must know before believing the answer; empty for nothing."""
    place: str = ""
    """``iptables-legacy in Linux network namespaces on host ...``; empty if nothing was measured."""
    terms: tuple[tuple[str, str], ...] = ()
    """Terms and their meaning on this page."""
    where_note: str = ""
    assurance: str = ""
    """What supports the answer."""
    purpose: str = ""
    """What runs of this kind are for, if the scenario has no question."""
    made_from: PageOrigin | None = None
    """The run of ``manifest`` if None."""

    @cached_property
    def origin(self) -> PageOrigin:
        return self.made_from or PageOrigin.of_run(self.manifest)

    @property
    def warning(self) -> str:
        """Everything to know before believing the answer, beginning with whether the run is complete."""
        unfinished = _UNFINISHED.get(str(self.manifest.get("status")), "")
        device = caution(self.manifest.get("facts") or {})
        sentence = f"{device[:1].upper()}{device[1:]}." if device else ""
        return " ".join(filter(None, (unfinished, sentence, self.caution)))

    @property
    def source(self) -> str:
        """What the figures are about: ``iptables-legacy, 2026-11-22``."""
        return ", ".join(filter(None, (self.subject, self.origin.date)))

    @property
    def question(self) -> str:
        """What the run was for: the scenario's question, or else what was tested."""
        asked = str((self.manifest.get("scenario") or {}).get("question") or "")
        said = asked or " · ".join(filter(None, (self.purpose, self.subject)))
        return f"{said[:1].upper()}{said[1:]}"

    @cached_property
    def opening(self) -> Chapter | None:
        """The first chapter that begins with charts, which stands before all others."""
        return next((chapter for chapter in self.chapters if chapter.begins_with_charts), None)

    @property
    def filled(self) -> list[Chapter]:
        """The chapters that have something to show."""
        shown = [chapter for chapter in self.chapters if not chapter.empty]
        return sorted(shown, key=lambda chapter: chapter is not self.opening)

    @property
    def absent(self) -> list[Chapter]:
        """The chapters that say why they have nothing to show."""
        return [chapter for chapter in self.chapters if chapter.empty and chapter.missing]

    @property
    def figures(self) -> list[Figure]:
        return [figure for chapter in self.chapters for part in chapter.whole() for figure in part.drawn]

    @property
    def graphs(self) -> Graphs | None:
        """The graphs that are not figures; at most one chapter has some."""
        return next((chapter.graphs for chapter in self.chapters if chapter.graphs), None)

    @property
    def _drawings(self) -> list[Drawing]:
        whole = (part for chapter in self.chapters for part in chapter.whole())
        return [part.drawing for part in whole if part.drawing is not None]

    @property
    def key_numbers(self) -> list[Tile]:
        """The tiles that have a number."""
        return [tile for tile in self.tiles if tile.value not in ("", NOTHING)]

    def html(self) -> str:
        """The whole page as one file."""
        return assembled(
            self.figures,
            self.graphs,
            style="".join(drawing.style for drawing in self._drawings),
            source=self.source,
            story=self,
            origin=self.origin,
            glossary=Glossary(self.terms),
            quantities=QUANTITIES,
        )


def with_more(chapter: Chapter, first: Sequence[Figure], rest: Sequence[Figure], title: str) -> Chapter:
    """``chapter`` with the figures ``first``; ``rest`` is folded away under ``title``."""
    more = Chapter(f"{chapter.key}-more", title, figures=tuple(rest), missing="", folded=True)
    return replace(chapter, figures=tuple(first), parts=(more, *chapter.parts))


def setting(facts: Pairs) -> Chapter:
    """What was tested, as ``facts``."""
    return Chapter("setting", "What was tested", "Setting", facts=facts, folded=True)


def place(manifest: Mapping[str, Any], lab: str, device: str) -> str:
    """What was tested, and where, as one phrase."""
    if lab == "sim":
        return "a simulated device (a model in software with set parameters)"
    where = {"netns": "Linux network namespaces"}.get(lab, lab)
    host, kernel = manifest.get("host", "an unnamed host"), manifest.get("kernel")
    return f"{device} in {where} on host {host}" + (f", kernel {kernel}" if kernel else "")


def scenario_text(content: Mapping[str, Any] | None) -> str:
    """``content``, a scenario from a manifest, as YAML; empty without one."""
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
