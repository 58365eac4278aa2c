"""The command that repeats a profile with more trials, as users can type it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final

from weirlab.base.errors import WeirError
from weirlab.records import JOINT
from weirlab.store import Run, Store

REPETITIONS: Final = 10
"""Repetitions that a profile which scatters too much should have at least."""

PROFILE_AGAIN: Final = f"profile again in the same way, with --repetitions {REPETITIONS}"

_WITH_VALUE: Final = frozenset({"--repetitions", "--resume", "--budget", "--time-budget"})
"""Options that make a profile shorter, or that belong to one run."""


def more_trials(run: Run | None, dut: str = "") -> str:
    """How to profile the device of ``run`` again with more repetitions: the same command otherwise.

    ``dut`` is the device, as ``--dut`` takes it, of a run that is not in the store.
    """
    if run is None:
        devices = " ".join(f"--dut {device}" for device in dut.split(JOINT))
        here = f"profile on this machine: weir profile {devices} --repetitions {REPETITIONS}"
        return here if dut else PROFILE_AGAIN
    manifest = run.manifest
    profile: Mapping[str, Any] = manifest.scenario.get("profile") or {}
    planned = profile.get("repetitions") or 0
    repetitions = max(REPETITIONS, 2 * planned)
    typed = shlex.split(str(manifest.facts.get("command", "")))
    words = profile_words(typed)
    if words is not None:
        return f"profile again: {shlex.join([*words, '--repetitions', str(repetitions)])}"
    if typed[1:2] == ["run"]:
        return f"set 'repetitions: {repetitions}' in the profile of its scenario and: {shlex.join(typed)}"
    return f"profile again as run {run.run_id} did, with --repetitions {repetitions}"


def profile_words(typed: list[str]) -> list[str] | None:
    """A command that profiles without what belongs to one run alone; None if it is another command.

    Options that choose the device, its rules and the frames stay.
    """
    if "profile" not in typed[:4] or "--resume" in typed or any(w.startswith("--resume=") for w in typed):
        return None
    words: list[str] = []
    rest = iter(typed)
    for word in rest:
        if word in _WITH_VALUE:
            next(rest, None)
        elif word.split("=")[0] not in _WITH_VALUE and word != "--json":
            words.append(word)
    return words


def profiled_run(store: Store, run_id: str) -> Run | None:
    """The run that a model came from; None if the store does not have it."""
    try:
        return store.open(run_id)
    except WeirError:
        return None
