"""A signal at the worst moments of a run: it is there or not, and what is told of it is true."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from weirlab.jobs import profiles, progress
from weirlab.jobs.progress import RunInterrupt, SilentProgress
from weirlab.lab.sim import SimLab
from weirlab.scenario import Scenario, from_plain
from weirlab.store import Store, manifest, tables
from weirlab.store.writer import RunWriter

pytestmark = pytest.mark.usefixtures("caught_signals")


@pytest.fixture
def small() -> Scenario:
    profile = {"positions": [0], "sizes": ["64"], "load_shares": [0.5], "repetitions": 2, "trial_s": 0.01}
    return from_plain({"name": "small", "lab": {"kind": "sim"}, "profile": profile}, "test")


@pytest.fixture
def strike(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """A signal during the ``nth`` call of a function, before or after it has done its work."""

    def aim(owner: Any, name: str, nth: int = 1, *, after: bool = False) -> list[str]:
        function, calls = getattr(owner, name), []

        def struck(*arguments: Any, **more: Any) -> Any:
            calls.append(name)
            if len(calls) == nth and not after:
                signal.raise_signal(signal.SIGTERM)
            result = function(*arguments, **more)
            if len(calls) == nth and after:
                signal.raise_signal(signal.SIGTERM)
            return result

        monkeypatch.setattr(owner, name, struck)
        return calls

    return aim


def interrupted(store: Store, small: Scenario) -> KeyboardInterrupt:
    def work() -> None:
        profiles.profile(store, small, SilentProgress())
        while True:
            signal.pause()

    with pytest.raises(KeyboardInterrupt) as caught:
        work()
    return caught.value


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("owner", "name"), [(RunWriter, "move"), (manifest.Manifest, "save"), (RunWriter, "add")]
)
def test_a_signal_while_a_run_is_made_or_written_leaves_one_that_goes_on(
    store: Store, small: Scenario, strike: Callable[..., list[str]], owner: Any, name: str, after: bool
) -> None:
    strike(owner, name, after=after)
    error = interrupted(store, small)
    assert isinstance(error, RunInterrupt)
    run = store.open(error.run_id)
    trials = run.trials()
    assert run.manifest.status == "interrupted"
    assert run.manifest.trials == trials.height == error.kept
    outcome = profiles.resume_profile(store, error.run_id, SilentProgress())
    whole = outcome.run.trials()
    assert whole["index"].to_list() == list(range(outcome.outcome.trials))
    assert outcome.run.manifest.trials == whole.height
    assert [run.status for run in store.runs()] == ["complete"]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("owner", "name"), [(RunWriter, "finish"), (tables, "compact"), (SimLab, "close")])
def test_a_signal_when_all_is_measured_leaves_a_complete_run_and_says_so(
    store: Store,
    small: Scenario,
    strike: Callable[..., list[str]],
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    after: bool,
) -> None:
    monkeypatch.setattr(progress, "completed", [])
    calls = strike(owner, name, after=after)
    error = interrupted(store, small)
    assert calls
    assert not isinstance(error, RunInterrupt)
    (run,) = store.runs()
    assert (run.status, run.problem, progress.completed) == ("complete", "", [run.run_id])
    assert store.open(run.run_id).trials().height == run.trials
