"""Runs before a change compared with runs after it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np

from weirlab.base.errors import InputError, NotMet, Undecided, WeirError
from weirlab.base.units import NS_PER_S
from weirlab.devices.comparison import turns
from weirlab.jobs import machine
from weirlab.model.comparing import paired
from weirlab.model.comparing.matching import (
    LOAD,
    OWN_RULES,
    SETTING,
    ComparisonSetting,
    SettingMeasurement,
    digest,
)
from weirlab.model.comparing.verdicts import (
    GOOD,
    ComparisonFinding,
    ComparisonTerms,
    Verdict,
    compare,
    overall,
)
from weirlab.records import Observation, device_in_words
from weirlab.scenario import BLACK_BOX
from weirlab.store import Manifest, Run, Store, how_recent
from weirlab.store.states import SAME_RATIO

IN_TURNS: Final = ComparisonTerms(paired.MARGINS)

KINDS: Final = ("profile", "trial")
"""Kinds of runs that can be compared."""

_NOT_MATCHED: Final = ("seed", "warmup_s", "duration_s", "bin_ns")
"""What may differ between trials of one setting."""

_MOST_NAMED: Final = 3


@dataclass(frozen=True)
class ForwardingChange:
    """What two devices forwarded in overload at one setting, measured in turns."""

    setting: ComparisonSetting
    before_pps: float
    after_pps: float
    """Medians over pairs."""
    packet_ns: float
    """Time per packet that the second takes more: median over pairs."""
    rule_ns: float | None = None
    """That time for each rule by which the numbers of rules differ that packets are compared with; None if
    these are the same or not known, or if the rates may be the same."""


@dataclass(frozen=True)
class ComparisonOutcome:
    """The runs that were compared, and the findings."""

    before: tuple[Run, ...]
    after: tuple[Run, ...]
    """Both empty if the devices were measured in turns, as one ``run``."""
    kind: str
    terms: ComparisonTerms
    findings: tuple[ComparisonFinding, ...]
    notes: tuple[str, ...]
    """What the reader must know: what differs besides the results, what was left out."""
    simulated: bool
    run: Run | None = None
    rules_met: tuple[Mapping[str, Any], ...] = ()
    """Of rulesets measured in turns: the rule that the packets met on each side."""
    rates: tuple[ForwardingChange, ...] = ()
    """Of devices measured in turns."""

    @property
    def verdict(self) -> Verdict:
        return overall(self.findings)

    def problem(self) -> WeirError | None:
        """The error to report if the change was for the worse, or if that cannot be told."""
        if self.verdict == "worse":
            return NotMet(f"changed for the worse: {self._titles('worse')}")
        if self.verdict == "cannot tell":
            return Undecided(f"cannot tell whether it changed: {self._titles('cannot tell')}")
        return None

    def _titles(self, verdict: Verdict) -> str:
        return ", ".join(one.title for one in self.findings if one.verdict == verdict)

    def document(self) -> dict[str, Any]:
        return {
            "kind": "comparison",
            "of": self.kind,
            "before": [run.run_id for run in self.before],
            "after": [run.run_id for run in self.after],
            "run_id": None if self.run is None else self.run.run_id,
            "simulated": self.simulated,
            "verdict": self.verdict,
            "good": self.verdict in GOOD,
            "certainty": self.terms.certainty,
            "quantities": [one.document() for one in self.findings],
            "notes": self.notes,
            "rules_met": self.rules_met,
            "rates": [{**asdict(one), "setting": one.setting.text} for one in self.rates],
        }


def compare_runs(
    store: Store, before: Sequence[str], after: Sequence[str], terms: ComparisonTerms
) -> ComparisonOutcome:
    """Compare the runs ``after`` a change with those ``before`` it.

    Raises
    ------
    InputError
        The runs are of a kind that cannot be compared, of different kinds, named twice, or have no
        setting in common.
    Undecided
        A run has no valid trial.
    TrialError
        The device of a run was emulated.
    """
    first, second = (tuple(_open(store, name) for name in names) for names in (before, after))
    runs = (*first, *second)
    manifests = [run.manifest for run in runs]
    for manifest in manifests:
        machine.refuse_emulated(manifest.facts, f"run {manifest.run_id}")
    kind = _kind(runs, manifests)
    same_load = kind == "trial"
    digests = [digest(_observations(run, kind), same_load=same_load) for run in runs]
    simulated = all(run.simulated for run in runs)
    one, other = digests[: len(first)], digests[len(first) :]
    findings = compare(one, other, replace(terms, simulated=simulated), same_load=same_load)
    if not findings:
        raise InputError(
            f"nothing to compare: no setting is in the runs before and after. {_settings('Before', one)}; "
            f"{_settings('after', other)} (flows and headers must match as well)"
        )
    if unusable := _unusable(runs):
        findings = [replace(found, verdict="cannot tell", why=unusable) for found in findings]
    elif (moved := _other_state(runs)) is not None:
        findings = [replace(found, verdict="cannot tell", why=moved) for found in findings]
    notes = (*_differences(manifests), *_left_out(one, other), *_interrupted(manifests))
    return ComparisonOutcome(first, second, kind, terms, tuple(findings), notes, simulated)


def compare_turns(run: Run, terms: ComparisonTerms = IN_TURNS) -> ComparisonOutcome:
    """What a run of trials in turns says about its two devices."""
    terms = replace(terms, simulated=run.simulated)
    findings = paired.compare_pairs(turns.differences(run), terms)
    trials = run.trials()
    notes = list(_interrupted([run.manifest]))
    if spoiled := int((~trials["valid"]).sum()):
        notes.append(f"{spoiled} of {trials.height} trials were disturbed by the host and do not count.")
    met = tuple(run.get_json(turns.PLAN).get(turns.MET, ()))
    return ComparisonOutcome(
        (),
        (),
        turns.KIND,
        terms,
        tuple(findings),
        tuple(notes),
        run.simulated,
        run,
        met,
        tuple(_rate_changes(run, findings, met)),
    )


def _rate_changes(
    run: Run, findings: Sequence[ComparisonFinding], met: Sequence[Mapping[str, Any]]
) -> Iterator[ForwardingChange]:
    differs = any(one.quantity == "rate" and (one.low > 0 or one.high < 0) for one in findings)
    counts = [one["compared"] for one in met]
    rules = counts[1] - counts[0] if len(counts) == len(turns.SIDES) and None not in counts else 0
    for setting, pairs in turns.rates(run).items():
        before, after = np.median(pairs, axis=0)
        packet_ns = float(np.median(NS_PER_S / pairs[:, 1] - NS_PER_S / pairs[:, 0]))
        yield ForwardingChange(
            setting, float(before), float(after), packet_ns, packet_ns / rules if differs and rules else None
        )


def _open(store: Store, name: str) -> Run:
    return store.open(name) if how_recent(name) is None else store.open(name, kind=KINDS)


def _kind(runs: Sequence[Run], manifests: Sequence[Manifest]) -> str:
    for run, manifest in zip(runs, manifests, strict=True):
        if manifest.kind not in KINDS:
            raise InputError(
                f"run {run.run_id} is of the kind {manifest.kind}, which cannot be compared; "
                f"compared are runs of the kinds {' and '.join(KINDS)}"
            )
    kinds = {manifest.kind: manifest.run_id for manifest in manifests}
    if len(kinds) > 1:
        told = " and ".join(f"{run_id} is a {kind}" for kind, run_id in kinds.items())
        raise InputError(f"runs of different kinds cannot be compared: {told}")
    names = [run.run_id for run in runs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"run {', '.join(twice)} is named twice: a run cannot be compared with itself")
    return manifests[0].kind


def _observations(run: Run, kind: str) -> list[Observation]:
    """The valid trials of the run, each with what has to be equal in its specification."""
    seen = run.observations("profile" if kind == "profile" else None)
    if not seen:
        raise Undecided(f"run {run.run_id} has no valid trial that can be compared; 'weir show' says why")
    found = [replace(one, extra={**one.extra, **_setting(one, kind)}) for one in seen]
    # Of the user's own rules, how many packets meet is a result of the change.
    return [replace(one, position=OWN_RULES) for one in found] if _own_rules(run.manifest) else found


def _own_rules(manifest: Manifest) -> bool:
    return manifest.facts.get("dut") in ("ruleset", "image", BLACK_BOX)


def _setting(seen: Observation, kind: str) -> dict[str, str]:
    """The requested setting as text, without what may differ; with the load only for single trials."""
    # A stored plan has 1.0 where the first session had 1.
    spec = json.loads(seen.extra["spec"], parse_int=float)
    traffic = {
        name: value for name, value in spec["traffic"].items() if name != "rate" and name not in _NOT_MATCHED
    }
    flows = {name: value for name, value in traffic["flows"].items() if name != "seed"}
    rules = {name: value for name, value in spec.get("rules", {}).items() if name != "position"}
    rest = json.dumps(
        {**spec, "label": "", "rules": rules, "traffic": {**traffic, "flows": flows}}, sort_keys=True
    )
    return {SETTING: rest, **({LOAD: seen.extra["rate_text"]} if kind == "trial" else {})}


def _unusable(runs: Sequence[Run]) -> str:
    """Which runs do not count, and why; empty if all do."""
    found = {run.run_id: machine.refusal(run) for run in runs}
    return "; ".join(f"run {run_id} does not count, {why}" for run_id, why in found.items() if why)


def _other_state(runs: Sequence[Run]) -> str | None:
    """Why the runs cannot be compared if the host was in different states, see ``store.states``."""
    known = [ns for run in runs if (ns := run.host_reference_ns()) is not None]
    if not known or max(known) <= SAME_RATIO * min(known):
        return None
    return (
        f"the host was in another state: a round trip between CPUs took {min(known):.0f} ns in one run and "
        f"{max(known):.0f} ns in another; measure both again, one right after the other"
    )


def _settings(lead: str, digests: Sequence[dict[ComparisonSetting, SettingMeasurement]]) -> str:
    texts = list(dict.fromkeys(place.text for found in digests for place in sorted(found, key=_order)))
    more = f" and {len(texts) - _MOST_NAMED} more" if len(texts) > _MOST_NAMED else ""
    return f"{lead}: {'; '.join(texts[:_MOST_NAMED])}{more}"


def _order(place: ComparisonSetting) -> tuple[float, float]:
    return place.position, place.frame_bytes


def _differences(manifests: Sequence[Manifest]) -> Iterator[str]:
    """What differs between the runs besides the results, a sentence each."""
    sides = {
        "the device": [device_in_words(str(manifest.facts.get("dut", ""))) for manifest in manifests],
        "the lab": [str(manifest.facts.get("lab", "")) for manifest in manifests],
        "the engine's backend": [str(manifest.facts.get("backend", "")) for manifest in manifests],
        "the host": [manifest.host for manifest in manifests],
        "the kernel": [manifest.kernel for manifest in manifests],
        # Runs from before lists were shortened do not say so; others also say why they were not.
        "the length of the kernel's lists of free pages": [
            str(manifest.facts.get("page_lists", "usual")).partition(":")[0] for manifest in manifests
        ],
        "the version of Weir": [str(manifest.versions.get("weirlab", "")) for manifest in manifests],
    }
    for what, values in sides.items():
        if len(different := dict.fromkeys(values)) > 1:
            yield f"{what[0].upper()}{what[1:]} is not the same in all runs: {', '.join(different)}."


def _left_out(
    one: Sequence[dict[ComparisonSetting, SettingMeasurement]],
    other: Sequence[dict[ComparisonSetting, SettingMeasurement]],
) -> Iterator[str]:
    first, second = ({place for found in side for place in found} for side in (one, other))
    for name, alone in (("before", first - second), ("after", second - first)):
        if alone:
            many = "1 setting is" if len(alone) == 1 else f"{len(alone)} settings are"
            yield f"{many} only in the runs {name} and not compared."


def _interrupted(manifests: Sequence[Manifest]) -> Iterator[str]:
    for manifest in manifests:
        if manifest.status != "complete":
            yield f"Run {manifest.run_id} is {manifest.status}: only the trials that it has are compared."
