"""What trials, calibrations and profiles showed, in a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from weirlab.cli.quantities import count, duration, percent, plural, rate, rules
from weirlab.devices.prediction.wording import verification
from weirlab.records import device_in_words
from weirlab.studies.commands.wording import report

if TYPE_CHECKING:
    from weirlab.devices.profile.findings import ProfileFindings
    from weirlab.jobs.profiles import ProfileOutcome
    from weirlab.measure.adaptive import AdaptiveOutcome
    from weirlab.measure.calibrate import Calibration
    from weirlab.store import Run
    from weirlab.studies.contract import Outcome


_ALL: Final = 0.001
"""Share of the packets that counters may miss, since they are read before and after a trial."""


def headlines(run: Run) -> tuple[str, ...]:
    """What a trial or a calibration found, or how far models are off by their verification."""
    from weirlab.devices.prediction.verification import stored
    from weirlab.jobs.trials import counted, repetitions
    from weirlab.measure import calibrate

    if run.manifest.kind == "trial":
        made = run.trials()
        return (trial(counted(made), made.height) + repeated(repetitions(made)),) if made.height else ()

    if run.manifest.kind == calibrate.KIND:
        known = run.has(calibrate.RESULT)
        return (calibration(run.get_json(calibrate.RESULT, calibrate.Calibration)),) if known else ()
    found = stored(run)
    return () if found is None else (verification(found),)


def trial(found: Mapping[str, Any], attempts: int) -> str:
    """What one trial showed, from the row of ``trials`` for the attempt that counts."""
    if not found["valid"]:
        return f"Invalid after {plural(attempts, 'attempt')}: {found['invalid']}."
    setting = device_in_words(found["dut"], first=True)
    if found["dut"] not in ("ruleset", "none"):
        setting += f" with {rules(found['position'])}"
    if not math.isnan(share := _number(found.get("new_share"))):
        setting += f", where {percent(share)} of the packets opened a flow,"
    if "," in found["places"]:
        setting += f", matching at {found['places']},"
    if not math.isnan(_number(found.get("dropped_pps"))):
        return f"{setting} {_dropped(found)}{_against(found)}"
    return f"{setting} {_forwarded(found)}{_against(found)}"


def repeated(repetitions: Sequence[Mapping[str, Any]]) -> str:
    """How far repetitions of a trial lie apart, as a further sentence; empty for a single one."""
    if len(repetitions) < 2:
        return ""
    valid = [each for each in repetitions if each["valid"]]
    if len(valid) < 2:
        return f" {len(valid)} of {len(repetitions)} repetitions counts." if valid else ""
    forwarded, lost, p50, p99 = (
        " to ".join(dict.fromkeys(told(end([each[name] for each in valid])) for end in (min, max)))
        for name, told in (
            ("forwarding_pps", rate),
            ("loss_ratio", percent),
            ("delay_p50_ns", duration),
            ("delay_p99_ns", duration),
        )
    )
    left = len(repetitions) - len(valid)
    others = f" ({left} more {'does' if left == 1 else 'do'} not count)" if left else ""
    return (
        f" That is one of {len(valid)} repetitions{others}, the middle one by loss and p99. In all of them, "
        f"{forwarded} were forwarded, {lost} of the packets were lost, the median delay was {p50}, p99 {p99}."
    )


def _against(found: Mapping[str, Any]) -> str:
    """What counters say against what was expected, as a further sentence."""
    from weirlab.jobs.trials import rules_met

    met = rules_met(found)
    return f" But {met.contradiction}." if met is not None and met.contradiction else ""


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _dropped(found: Mapping[str, Any]) -> str:
    """What became of a load that a rule drops."""
    dropped, achieved = found["dropped_pps"], found["achieved_pps"]
    if dropped >= (1 - _ALL) * achieved:
        return f"dropped all of {rate(achieved)} at the rule."
    return (
        f"dropped {rate(dropped)} of {rate(achieved)} at the rule; the rest was lost before the device could "
        "compare it with its rules."
    )


def _forwarded(found: Mapping[str, Any]) -> str:
    """What became of the load of a valid trial."""
    from weirlab.jobs.trials import queue_packets

    if found["received"] == 0:
        return (
            f"forwarded nothing of {rate(found['achieved_pps'])}: it lost every packet, although it forwards "
            "packets at a lower load."
        )
    p50, p99 = (duration(found[name]) for name in ("delay_p50_ns", "delay_p99_ns"))
    if found["lost"] == 0:
        return f"forwarded all of {rate(found['achieved_pps'])}; median delay {p50}, p99 {p99}."
    return (
        f"forwarded {rate(found['forwarding_pps'])} of {rate(found['achieved_pps'])} "
        f"({percent(found['loss_ratio'])} lost); median delay {p50}, p99 {p99}, "
        f"about {queue_packets(found['delay_mean_ns'], found['forwarding_pps']):.0f} packets in the device."
    )


def calibration(found: Calibration) -> str:
    """Weir's own error, in a sentence."""
    return (
        f"Weir's own error here: pacing within {percent(found.pacing_error_ratio)} up to "
        f"{rate(found.paced_limit_pps)}, time stamps +{duration(found.delay_p50_ns)} (median) and at most "
        f"+{duration(found.delay_p99_ns)} (p99), {count(found.lost)} of {count(found.sent)} packets falsely "
        f"lost; later results name calibration {found.id}."
    )


def profile(outcome: ProfileOutcome) -> str:
    """What was profiled, and the command to run next."""
    from weirlab.jobs.trials import contradicted

    run_id, measured = outcome.run.run_id, outcome.outcome
    missing = len(measured.invalid)
    of = " of the simulated device" if outcome.run.simulated else ""
    lead = f"Run {run_id}: {plural(measured.trials, 'trial')}{of} in {measured.elapsed_s:.0f} s"
    if missing == measured.trials:
        return (
            "No trial had a valid attempt, so nothing is known about the device. "
            f"{lead}; next: weir show {run_id}"
        )
    held = f"{count(missing)} of {plural(measured.trials, 'trial')} had no valid attempt. " if missing else ""
    answer = _answer(outcome.rates["thresholds"])
    if unlike := len(outcome.rates["irregular"]):
        held += (
            f"{plural(unlike, 'valid trial')} {'is' if unlike == 1 else 'are'} unlike the others (table). "
        )
    if measured.stopped == "time":
        held += "The time budget is used up. "
    sure = "" if outcome.adaptive is None else f"{_certainty(outcome.adaptive)} "
    resume = f"weir profile --resume {run_id}"
    if outcome.problem() is not None:
        next_one = (
            resume if outcome.left else str(outcome.run.manifest.facts.get("command") or "weir profile")
        )
    else:
        next_one = f"weir fit {run_id}"
        if measured.stopped == "time" and outcome.left:
            next_one += f", or for the other trials {resume} --time-budget TIME"
    against = contradicted(outcome.run.trials())
    return f"{answer}{held}{sure}{against}{' ' if against else ''}{lead}; next: {next_one}"


def _answer(found: Sequence[Mapping[str, Any]]) -> str:
    """``833 kpps of 64-byte frames without rules, 202 kpps with 1,000 rules: 3.74 ns a rule.``; or empty.

    Of the smallest frames, without connection tracking; a rule's cost is the mean between the two positions,
    and that of a new flow between the two shares of packets that open one.
    """
    plain = [each for each in found if not each["stateful"]]
    if not plain:
        return ""
    frame = min(each["frame_bytes"] for each in plain)
    rows = sorted((each for each in plain if each["frame_bytes"] == frame), key=lambda each: each["position"])
    first, last = rows[0], rows[-1]
    said = f"{rate(first['threshold_pps'])} of {frame:.4g}-byte frames {_behind(first)}"
    if first is last:
        return f"{said}. "
    said += f", {rate(last['threshold_pps'])} {_behind(last)}"
    times_ns = [1e9 / each["threshold_pps"] for each in (first, last)]
    shares = last.get("new_share", 0.0) - first.get("new_share", 0.0)
    unit, units = ("a new flow", shares) if shares else ("a rule", last["position"] - first["position"])
    cost_ns = (times_ns[1] - times_ns[0]) / units
    return f"{said}: {duration(cost_ns)} {unit}. " if cost_ns > 0 else f"{said}. "


def _behind(row: Mapping[str, Any]) -> str:
    position = row.get("rules", row["position"])
    behind = f"with {rules(position)}" if position else "without rules"
    return behind if row.get("new_share") is None else f"{behind} and {percent(row['new_share'])} new flows"


def _certainty(outcome: AdaptiveOutcome) -> str:
    """How sure the model is after an adaptive profile, and where least."""
    if not outcome.rounds:
        return "Nothing was chosen."
    last, trials = outcome.rounds[-1], outcome.outcome.trials
    of_grid = f"{plural(trials, 'trial')} of the {count(outcome.grid_trials)} of the whole grid"
    if math.isnan(last.most):
        return f"After {of_grid} no model can be fitted: {last.where}."
    target = percent(outcome.target_ratio)
    state = f"within the target of {target}" if outcome.reached else f"short of the target of {target}"
    return (
        f"After {of_grid} predictions are known to within {percent(last.most)} at 95 % of the settings "
        f"(median {percent(last.median)}), {state}; worst, {percent(last.largest)}, at {last.where}."
    )


def scenario(outcome: Outcome[ProfileFindings]) -> str:
    """The verification and the report, one per line, then the run."""
    parts = []
    if outcome.found.verification is not None:
        parts.append(verification(outcome.found.verification))
    if outcome.report is not None:
        parts.append(report(outcome.report))
    return "\n".join([*parts, f"Run {outcome.run.run_id} is complete."])
