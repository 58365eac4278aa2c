"""Trial specifications as JSON values and back.

The same form stands in a run's plan, in the ``spec`` column of its trials and in exports,
so that whoever reads a record knows exactly what was sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from weirlab.errors import InputError, StoreError
from weirlab.records import RuleSetup, TrialSpec
from weirlab.traffic.calls.codecs import Codec, VoiceStream
from weirlab.traffic.calls.spec import CallClass, Calls
from weirlab.traffic.places import Places
from weirlab.traffic.sizes import Constant, Poisson, SizeMix, Weighted
from weirlab.traffic.spec import Flows, Rate, Step, Traffic


def spec_to_json(spec: TrialSpec) -> dict[str, Any]:
    """``spec`` as JSON values; :func:`spec_from_json` is the inverse."""
    places = {"places": [list(place) for place in spec.rules.places]} if spec.rules.places else {}
    both_ways = {"both_ways": True} if spec.rules.both_ways else {}
    return {
        "label": spec.label,
        "rules": {
            "position": spec.rules.position,
            "stateful": spec.rules.stateful,
            **places,
            **both_ways,
        },
        "traffic": traffic_to_json(spec.traffic),
        "cross_traffic": spec.cross_traffic,
    }


def spec_from_json(value: Mapping[str, Any]) -> TrialSpec:
    """Read what :func:`spec_to_json` made, now or before it knew places and cross traffic.

    Raises ``StoreError`` for anything else.
    """
    try:
        rules = value["rules"]
        setup = RuleSetup(
            int(rules["position"]),
            bool(rules["stateful"]),
            _places(rules.get("places", ())),
            bool(rules.get("both_ways", False)),
        )
        traffic = traffic_from_json(value["traffic"])
        return TrialSpec(traffic, setup, str(value["label"]), bool(value.get("cross_traffic", False)))
    except (KeyError, TypeError, ValueError, AttributeError, InputError) as error:
        raise StoreError(
            f"not the specification of a trial ({type(error).__name__}: {error}); "
            "it may be damaged or come from another version of Weir"
        ) from error


def traffic_to_json(traffic: Traffic) -> dict[str, Any]:
    """``traffic`` as JSON values."""
    return {
        "rate": rate_to_json(traffic.rate),
        "sizes": sizes_to_json(traffic.sizes),
        "flows": flows_to_json(traffic.flows),
        "arrivals": traffic.arrivals,
        "steps": [_step_to_json(step) for step in traffic.steps],
        "warmup_s": traffic.warmup_s,
        "duration_s": traffic.duration_s,
        "seed": traffic.seed,
        "bin_ns": traffic.bin_ns,
        **({} if traffic.calls is None else {"calls": calls_to_json(traffic.calls)}),
    }


def traffic_from_json(value: Mapping[str, Any]) -> Traffic:
    """Inverse of :func:`traffic_to_json`."""
    return Traffic(
        rate=rate_from_json(value["rate"]),
        sizes=sizes_from_json(value["sizes"]),
        flows=flows_from_json(value["flows"]),
        arrivals=value["arrivals"],
        steps=tuple(_step_from_json(step) for step in value["steps"]),
        warmup_s=float(value["warmup_s"]),
        duration_s=float(value["duration_s"]),
        seed=int(value["seed"]),
        bin_ns=value.get("bin_ns"),
        calls=None if value.get("calls") is None else calls_from_json(value["calls"]),
    )


def calls_to_json(calls: Calls) -> dict[str, Any]:
    """``calls`` as JSON values."""
    return asdict(calls)


def calls_from_json(value: Mapping[str, Any]) -> Calls:
    """Inverse of :func:`calls_to_json`."""
    classes = tuple(
        CallClass(
            **{
                **kind,
                "stream": VoiceStream(**{**kind["stream"], "codec": Codec(**kind["stream"]["codec"])}),
            }
        )
        for kind in value["classes"]
    )
    return Calls(**{**value, "classes": classes})


def _step_to_json(step: Step) -> dict[str, Any]:
    rate = None if step.rate is None else rate_to_json(step.rate)
    return {"at_s": step.at_s, "rate": rate, "position": step.position}


def _step_from_json(value: Mapping[str, Any]) -> Step:
    rate, position = value.get("rate"), value.get("position")
    return Step(
        float(value["at_s"]),
        None if rate is None else rate_from_json(rate),
        None if position is None else int(position),
    )


def _places(value: Sequence[Any]) -> Places:
    return tuple((int(position), float(share)) for position, share in value)


def rate_to_json(rate: Rate) -> dict[str, Any]:
    """``rate`` as JSON values; the value of ``max`` means nothing and is left out."""
    if rate.unit == "max":
        return {"unit": "max"}
    line = {"line_bps": rate.line_bps} if rate.unit == "percent" else {}
    return {"value": rate.value, "unit": rate.unit, **line}


def rate_from_json(value: Mapping[str, Any]) -> Rate:
    """Inverse of :func:`rate_to_json`."""
    unit = value["unit"]
    if unit not in ("pps", "bps", "percent", "max"):
        raise ValueError(f"unknown unit of a rate: {unit!r}")
    return Rate(float(value.get("value", 0.0)), unit, float(value.get("line_bps", Rate(0.0).line_bps)))


def flows_to_json(flows: Flows) -> dict[str, Any]:
    """``flows`` as JSON values."""
    return dict(vars(flows))


def flows_from_json(value: Mapping[str, Any]) -> Flows:
    """Inverse of :func:`flows_to_json`."""
    return Flows(**value)


def sizes_to_json(mix: SizeMix) -> dict[str, Any]:
    """``mix`` as JSON values, told apart by ``kind``."""
    match mix:
        case Constant(frame_bytes):
            return {"kind": "constant", "frame_bytes": frame_bytes}
        case Weighted(parts, name):
            return {"kind": "weighted", "parts": [list(part) for part in parts], "name": name}
        case Poisson(low, high, mean):
            return {"kind": "poisson", "low_bytes": low, "high_bytes": high, "mean_bytes": mean}


def sizes_from_json(value: Mapping[str, Any]) -> SizeMix:
    """Inverse of :func:`sizes_to_json`."""
    match value["kind"]:
        case "constant":
            return Constant(int(value["frame_bytes"]))
        case "weighted":
            parts = tuple((int(size), float(weight)) for size, weight in value["parts"])
            return Weighted(parts, str(value["name"]))
        case "poisson":
            return Poisson(int(value["low_bytes"]), int(value["high_bytes"]), float(value["mean_bytes"]))
        case kind:
            raise ValueError(f"unknown kind of frame sizes: {kind!r}")
