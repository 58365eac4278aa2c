"""What runs store about searches and the tests of RFC 2544, and the pages about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from weirlab.base.documents import document_of, plain, typed
from weirlab.base.errors import InputError
from weirlab.devices.search.rfc2544.suite import Result, Rfc2544Suite
from weirlab.devices.search.study import RESULT, RFC2544, SEARCH
from weirlab.measure.search.goal import SearchGoal
from weirlab.measure.search.throughput import Point, SearchShape, Setting
from weirlab.records import RuleSetup
from weirlab.store import Run
from weirlab.traffic.sizes import parse_sizes

if TYPE_CHECKING:
    from weirlab.report.story import Story

T = TypeVar("T")


def search_page(run: Run) -> Story:
    """The page about a search."""
    from weirlab.devices.search.page import ThroughputEvidence, tell

    goals = typed(tuple[SearchGoal, ...], _asked(run, SEARCH).get("goals", []))
    return tell(
        ThroughputEvidence(vars(run.manifest), run.trials(), _shape(run, SEARCH), _found(run, points), goals)
    )


def rfc2544_page(run: Run) -> Story:
    """The page about the tests of RFC 2544."""
    from weirlab.devices.search.page import Rfc2544Evidence, tell_rfc2544

    suite = _of(Rfc2544Suite, _asked(run, RFC2544))
    return tell_rfc2544(
        Rfc2544Evidence(vars(run.manifest), run.trials(), _shape(run, RFC2544), _found(run, results), suite)
    )


def points(run: Run) -> tuple[Point, ...]:
    """What a search found in each setting so far."""
    return _kept(run, lambda one: typed(Point, _point(one)))


def results(run: Run) -> tuple[Result, ...]:
    """What the tests of RFC 2544 found in each setting so far."""
    return _kept(run, _result)


def device(run: Run) -> str:
    """The device under test, as the run names it."""
    return str(run.manifest.facts.get("dut", "device"))


def _found(run: Run, read: Callable[[Run], tuple[T, ...]]) -> tuple[T, ...]:
    found = read(run)
    if not found and run.manifest.status == "interrupted":
        raise InputError(f"run {run.run_id} was interrupted before anything was found: search again")
    return found


def _kept(run: Run, read: Callable[[Mapping[str, Any]], T]) -> tuple[T, ...]:
    return run.get_json(RESULT, lambda content: tuple(map(read, content))) if run.has(RESULT) else ()


def _result(kept: Mapping[str, Any]) -> Result:
    tests = {name: kept[name] and _unfolded(kept[name]) for name in ("latency", "loss", "bursts")}
    throughput = kept["throughput"] and _point(kept["throughput"])
    return typed(Result, {**_unfolded(kept), **tests, "throughput": throughput})


def _point(kept: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**_unfolded(kept), "found": kept["goals"]}


def _unfolded(kept: Mapping[str, Any]) -> Mapping[str, Any]:
    """``kept`` with the values of its setting gathered in one field."""
    rules = RuleSetup(kept["position"], stateful=kept["stateful"])
    setting = Setting(parse_sizes(kept["sizes_text"]), rules)
    return {**kept, "setting": plain(document_of(setting))}


def _shape(run: Run, kind: str) -> SearchShape:
    return _of(SearchShape, _asked(run, kind))


def _of(kind: type[T], content: Mapping[str, Any]) -> T:
    """The fields of ``kind`` that are in ``content``; the others have their defaults."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return typed(kind, {name: content[name] for name in names if name in content})


def _asked(run: Run, kind: str) -> Mapping[str, Any]:
    """What the manifest says about the search or the tests."""
    return dict(run.manifest.scenario.get(kind) or {})
