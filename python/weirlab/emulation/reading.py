"""Reads what each direction of a link does from options and profiles."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from weirlab.base import files, limits
from weirlab.base.amounts import parse_size
from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.emulation.spec import (
    Amount,
    CoDel,
    DropTail,
    FrameListPattern,
    GilbertElliott,
    Jitter,
    MahimahiTrace,
    PathSpec,
    RandomPattern,
    Red,
    Reorder,
    RunPattern,
    Selection,
)

_TIME: Final = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)\s*(ns|us|µs|ms|s)")
_NS: Final = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
# As in weirlab.traffic.load: 'MBps' usually means bytes, and guessing would be wrong by a factor of 8.
_RATE: Final = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([kKmMgG]?)(?:bit/s|bps|bit)")
_SCALE: Final = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
_PACKETS: Final = re.compile(r"(\d{1,12})\s*(?:pkts?|packets?|p)")
_SHARE: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*(%?)")

_AQM: Final = {
    "codel": {"target", "interval"},
    "red": {"min", "max", "p", "weight"},
    "none": set[str](),
}

_ANY_TRACE: Final = MahimahiTrace("", b"1")
"""Takes the place of one that has not been read."""

Settings = Mapping[str, str]
"""Values as text, by the names in ``READERS``."""

Fields = dict[str, list[str]]

T = TypeVar("T")


@dataclass(frozen=True)
class LinkSpec:
    """Both directions, as text and as parsed. ``up`` goes from the first end to the second."""

    up_words: Settings
    down_words: Settings
    up: PathSpec
    down: PathSpec
    drawn_seed: int | None = None
    """The seed that was drawn because none was given."""

    @property
    def traces(self) -> list[Path]:
        """The files that the text names."""
        return [Path(path.trace.name) for path in (self.up, self.down) if path.trace is not None]

    def with_traces(self, inputs: files.Inputs) -> LinkSpec:
        """As :func:`with_trace`, for both directions."""
        return replace(self, up=with_trace(self.up, inputs), down=with_trace(self.down, inputs))


def read_link(
    both: Settings,
    up: str | None,
    down: str | None,
    profile: Path | None = None,
    draw_seed: Callable[[], int] | None = None,
) -> LinkSpec:
    """Read both directions from the options ``--NAME`` (``both``), ``--up``, ``--down`` and ``--profile``.

    A value for one direction overrides one for both, and an option overrides the profile. The files that they
    name are read. A direction whose random choices have no seed gets that of ``draw_seed`` (None: 1). Raises
    ``InputError``, which names the option.
    """
    of_file = read_profile(profile) if profile is not None else {}
    words: dict[str, Settings] = {}
    for name, text in (("up", up), ("down", down)):
        of_direction = read_words(text, f"--{name}") if text is not None else {}
        words[name] = {**of_file.get("both", {}), **of_file.get(name, {}), **both, **of_direction}
    asked = read_both(words["up"], words["down"])
    if draw_seed is not None:
        specs = {"up": asked.up, "down": asked.down}
        if unseeded := [name for name in words if specs[name].is_random and "seed" not in words[name]]:
            seed = draw_seed()
            for name in unseeded:
                words[name] = {**words[name], "seed": str(seed)}
            asked = replace(read_both(words["up"], words["down"]), drawn_seed=seed)
    return asked.with_traces(files.HOST_FILES)


def read_both(up: Settings, down: Settings) -> LinkSpec:
    """Read both directions from their text, but not the traces that it names.

    Raises ``InputError``, which names the option.
    """
    words = {"up": up, "down": down}
    specs = {}
    for number, name in enumerate(("up", "down")):
        seed = read_seed(words[name].get("seed", "1"), "--seed")
        # The same seed in both directions would lose the same frames in both.
        specs[name] = read_path({**words[name], "seed": str((2 * seed + number) % limits.HIGHEST_SEED)})
    return LinkSpec(up, down, specs["up"], specs["down"])


def read_words(text: str, option: str) -> dict[str, str]:
    """Parse ``rate 10Mbps queue 20pkts`` into values by name."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"{option} {quoted(text)}: {error}; close the quotes") from None
    if len(words) % 2:
        raise InputError(
            f"{option} {quoted(text)}: expected pairs of a name and a value, "
            f"e.g. {option} 'rate 10Mbps queue 20pkts'"
        )
    found: dict[str, str] = {}
    for name, value in zip(words[::2], words[1::2], strict=True):
        _check_name(name, option)
        if name in found:
            raise InputError(f"{option} {quoted(text)}: {name} is given twice")
        found[name] = value
    return found


def read_profile(path: Path) -> dict[str, dict[str, str]]:
    """Read a YAML file of option names, with ``up`` and ``down`` for what differs between directions.

    Returns values by name under ``both``, ``up`` and ``down``. A trace's path is relative to the profile.
    """
    import yaml

    where = f"--profile {files.shown(path)}"
    try:
        content = yaml.safe_load(files.read_text(path, "a profile", limits.MOST_BYTES))
    except yaml.YAMLError as error:
        place = getattr(error, "problem_mark", None)
        at = f", line {place.line + 1}" if place is not None else ""
        raise InputError(f"{where}{at}: this is not YAML: {getattr(error, 'problem', error)}") from None
    if not isinstance(content, dict):
        raise InputError(f"{where}: expected names and values, e.g. 'delay: 25ms'")
    found = {
        name: _of_profile(content.pop(name), f"{where}, {name}", path) if name in content else {}
        for name in ("up", "down")
    }
    return {"both": _of_profile(content, where, path), **found}


def _of_profile(content: Any, where: str, path: Path) -> dict[str, str]:
    if not isinstance(content, dict):
        raise InputError(f"{where}: expected names and values, e.g. 'delay: 25ms'")
    found = {}
    for name, value in content.items():
        _check_name(name, where)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise InputError(f"{where}: {name} must be text, e.g. {name}: {_EXAMPLES[name]}")
        found[name] = str(path.parent / str(value)) if name == "trace" else str(value)
    return found


def read_path(words: Settings) -> PathSpec:
    """Read one direction, but not the trace that it names; see :func:`with_trace`.

    Raises ``InputError``, which names the option, also for impossible values.
    """
    if "rate" in words and "trace" in words:
        raise InputError("--rate and --trace exclude each other: a trace has its own rate")
    if not words.keys() & {"rate", "trace"}:
        for name in ("queue", "aqm", "overhead"):
            if name in words:
                raise InputError(f"--{name} needs --rate or --trace: without one, nothing ever waits")
    values = {_FIELDS.get(name, name): READERS[name](text, f"--{name}") for name, text in words.items()}
    spec = PathSpec(**values)
    _check(spec if spec.trace is None else replace(spec, trace=_ANY_TRACE))
    return spec


def with_trace(spec: PathSpec, inputs: files.Inputs) -> PathSpec:
    """``spec`` with the content of its trace, if it has one.

    Raises ``InputError``, which names the option, if the trace cannot be read, may not be read or is none.
    """
    if spec.trace is None or spec.trace.content is not None:
        return spec
    name = spec.trace.name
    try:
        content = inputs.read_bytes(Path(name), "a trace", limits.MOST_INPUT_BYTES)
    except InputError as error:
        raise InputError(f"--trace: {error}") from error
    found = replace(spec, trace=MahimahiTrace(name, content))
    _check(found)
    return found


def _check(spec: PathSpec) -> None:
    from weirlab._engine import check_path

    try:
        check_path(spec.plain())
    except InputError as error:
        what, _, rest = str(error).partition(":")
        raise InputError(f"--{_OPTIONS.get(what, what)}:{rest}") from None


def read_time_ns(text: str, option: str) -> int:
    """Parse a time like ``25ms`` into ns."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise InputError(f"{option} {quoted(text)} is no time; accepted: 25ms, 300us, 1.5s, 800ns")
    return round(float(match[1]) * _NS[match[2]])


def read_rate_bps(text: str, option: str) -> int:
    """Parse a rate like ``100Mbps`` into bit/s."""
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise InputError(
            f"{option} {quoted(text)} is no bit rate; accepted: 100Mbps, 100Mbit/s or 100Mbit (bits, not "
            "bytes), 1.5Gbps, 64kbps"
        )
    return round(float(match[1]) * _SCALE[match[2].lower()])


def read_amount(text: str, option: str) -> Amount:
    """Parse ``50pkts``, ``64kB`` or ``20ms``."""
    plain = text.strip()
    if match := _PACKETS.fullmatch(plain):
        return Amount(int(match[1]), "packets")
    if _TIME.fullmatch(plain):
        return Amount(read_time_ns(plain, option), "ns")
    if plain[-1:] in ("B", "b"):
        return Amount(parse_size(plain, option), "bytes")
    raise InputError(
        f"{option} {quoted(text)}: give packets, bytes or time with the unit: 50pkts, 64kB or 20ms"
    )


def read_selection(text: str, option: str) -> Selection:
    """Parse ``1%``, ``1%,burst=3``, ``gemodel=1%,30%`` or ``frames=5,17,/100``."""
    return _selection(_fields(text, option, ("", "burst", "gemodel", "frames")), text, option)


def read_seed(text: str, option: str) -> int:
    """Parse a whole number."""
    if not re.fullmatch(r"\d{1,19}", text.strip()) or not int(text) <= limits.HIGHEST_SEED:
        raise InputError(f"{option} {quoted(text)}: expected a whole number from 0 to {limits.HIGHEST_SEED}")
    return int(text)


def _read_jitter(text: str, option: str) -> Jitter:
    size, *more = _fields(text, option, ("",))[""]
    unknown = [word for word in more if word not in ("uniform", "normal", "reorder")]
    if unknown or {"uniform", "normal"} <= set(more) or len(set(more)) < len(more):
        raise InputError(
            f"{option} {quoted(text)} not understood; accepted: 5ms, '5ms,normal', '5ms,reorder' and "
            "'5ms,normal,reorder'"
        )
    return Jitter(
        read_time_ns(size, option), "normal" if "normal" in more else "uniform", "reorder" not in more
    )


def _read_reorder(text: str, option: str) -> Reorder:
    found = _fields(text, option, ("", "burst", "gemodel", "frames", "by"))
    by = found.pop("by", None)
    if by is None:
        raise InputError(
            f"{option} {quoted(text)} needs by=TIME, how much later these frames leave: {option} 1%,by=3ms"
        )
    return Reorder(_selection(found, text, option), read_time_ns(_only(by, option, "by"), option))


def _read_aqm(text: str, option: str) -> DropTail | CoDel | Red:
    found = _fields(text, option, ("", "target", "interval", "min", "max", "p", "weight"))
    kind = _only(found.pop("", [""]), option, "the name")
    keys = _AQM.get(kind)
    if keys is None or found.keys() - keys:
        raise InputError(
            f"{option} {quoted(text)} not understood; accepted: codel, codel,target=5ms,interval=100ms, "
            "red,min=20pkts,max=60pkts,p=10%,weight=0.002 and none"
        )
    values = {key: _only(value, option, key) for key, value in found.items()}
    if kind == "none":
        return DropTail()
    if kind == "codel":
        return CoDel(**{f"{key}_ns": read_time_ns(value, option) for key, value in values.items()})
    if not {"min", "max"} <= values.keys():
        raise InputError(
            f"{option} {quoted(text)}: red needs both thresholds, e.g. red,min=20pkts,max=60pkts"
        )
    red = Red(read_amount(values["min"], option), read_amount(values["max"], option))
    if "p" in values:
        red = replace(red, max_ratio=_share(values["p"], option))
    if "weight" in values:
        red = replace(red, weight=_weight(values["weight"], option))
    return red


def _read_overhead(text: str, option: str) -> int:
    if not re.fullmatch(r"-?\d{1,5}", text.strip()):
        raise InputError(f"{option} {quoted(text)}: expected a whole number of bytes, e.g. {option} 24")
    return int(text)


def _selection(found: Fields, text: str, option: str) -> Selection:
    match found:
        case {"": [share], **more} if not more:
            ratio = _share(share, option)
            return RandomPattern(ratio)
        case {"": [share], "burst": [burst], **more} if not more:
            return RunPattern(_share(share, option), _number(burst, option))
        case {"gemodel": values, **more} if not more and 1 <= len(values) <= 4:
            ratios = [_share(value, option) for value in values]
            # As tc-netem: without r the state stays bad with probability p.
            to_bad, to_good, *others = ratios if len(ratios) > 1 else [ratios[0], 1 - ratios[0]]
            return GilbertElliott(to_bad, to_good, *others)
        case {"frames": numbers, **more} if not more:
            return FrameListPattern(",".join(numbers))
    raise InputError(
        f"{option} {quoted(text)} not understood; accepted: 1%, '1%,burst=3' (mean length of a run), "
        "'gemodel=1%,30%' (p, r, 1-h, 1-k of tc-netem) and 'frames=5,17,30-39,/100' (numbers of frames)"
    )


def _fields(text: str, option: str, names: tuple[str, ...]) -> Fields:
    """``a,b,key=c,d`` as ``{"": [a, b], "key": [c, d]}``."""
    found: Fields = {}
    key = ""
    for item in text.strip().split(","):
        name, equals, value = item.partition("=")
        if equals:
            key = name.strip()
            if key not in names or key in found:
                known = ", ".join(f"{name}=" for name in names if name)
                raise InputError(
                    f"{option} {quoted(text)}: {quoted(key)} "
                    + ("is given twice" if key in found else f"is unknown here; known: {known}")
                )
        found.setdefault(key, []).append((value if equals else item).strip())
    return found


def _only(values: list[str], option: str, name: str) -> str:
    if len(values) != 1:
        raise InputError(f"{option}: {name} needs one value, not {len(values)}")
    return values[0]


def _share(text: str, option: str) -> float:
    match = _SHARE.fullmatch(text.strip())
    if match and not match[2] and float(match[1]) == 1:
        raise InputError(f"{option}: {quoted(text)} may be 1 % or all; write 1% or 100%")
    ratio = float(match[1]) / (100 if match[2] else 1) if match else -1.0
    if not 0 <= ratio <= 1:
        raise InputError(f"{option}: {quoted(text)} is no share; accepted: 1% or 0.01, up to 100%")
    return ratio


def _weight(text: str, option: str) -> float:
    """RED's; a weight of 1 is no mistake for one of 1 %."""
    return 1.0 if text.strip() == "1" else _share(text, option)


def _number(text: str, option: str) -> float:
    match = _SHARE.fullmatch(text.strip())
    if match is None or match[2]:
        raise InputError(f"{option}: {quoted(text)} is not a number of frames, e.g. burst=3")
    return float(match[1])


def _check_name(name: object, where: str) -> None:
    if name not in READERS:
        raise InputError(f"{where}: {quoted(name)} is unknown; known: {', '.join(READERS)}")


READERS: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "delay": read_time_ns,
    "jitter": _read_jitter,
    "rate": read_rate_bps,
    "trace": lambda text, _: MahimahiTrace(text),
    "overhead": _read_overhead,
    "queue": read_amount,
    "aqm": _read_aqm,
    "loss": read_selection,
    "reorder": _read_reorder,
    "duplicate": read_selection,
    "seed": read_seed,
}
"""The parser of each setting of a direction, by its name."""

_FIELDS: Final = {"delay": "delay_ns", "rate": "rate_bps", "overhead": "overhead_bytes", "aqm": "discipline"}
"""Names of ``PathSpec`` fields that differ from the option's."""

_OPTIONS: Final = {"red": "aqm", "codel": "aqm"}
"""Options whose name differs from the one in the engine's messages."""

_EXAMPLES: Final = {
    "delay": "25ms",
    "jitter": "5ms",
    "rate": "100Mbps",
    "trace": "lte.up",
    "overhead": "24",
    "queue": "50pkts",
    "aqm": "codel",
    "loss": "1%",
    "reorder": "1%,by=3ms",
    "duplicate": "1%",
    "seed": "1",
}
