"""Reads what each direction of a link does from options and profiles."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from weirlab.base import files, limits
from weirlab.base.amounts import parse_time_ns
from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.emulation.spec import (
    MahimahiTrace,
    PathSpec,
    read_amount,
    read_aqm,
    read_jitter,
    read_overhead,
    read_rate_bps,
    read_reorder,
    read_seed,
    read_selection,
)

_ANY_TRACE: Final = MahimahiTrace("", b"1")
"""Takes the place of one that has not been read."""

Settings = Mapping[str, str]
"""Values as text, by the names in ``READERS``."""

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
    *,
    device: bool = False,
) -> LinkSpec:
    """Read both directions from the options ``--NAME`` (``both``), ``--up``, ``--down`` and ``--profile``.

    A value for one direction overrides one for both, and an option overrides the profile. The files that they
    name are read. A direction whose random choices have no seed gets that of ``draw_seed`` (None: 1); with a
    ``device``, which frames cross, there are such choices in either. Raises ``InputError``, which names the
    option.
    """
    of_file = read_profile(profile) if profile is not None else {}
    words: dict[str, Settings] = {}
    for name, text in (("up", up), ("down", down)):
        of_direction = read_words(text, f"--{name}") if text is not None else {}
        words[name] = {**of_file.get("both", {}), **of_file.get(name, {}), **both, **of_direction}
    asked = read_both(words["up"], words["down"])
    if draw_seed is not None:
        specs = {"up": asked.up, "down": asked.down}
        random = [name for name in words if device or specs[name].is_random]
        if unseeded := [name for name in random if "seed" not in words[name]]:
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
    # Dates that do not exist are values of the wrong kind to PyYAML.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        place = getattr(error, "problem_mark", None)
        at = f", line {place.line + 1}" if place is not None else ""
        problem = getattr(error, "problem", error)
        why = "it is nested too deeply" if isinstance(error, RecursionError) else problem
        raise InputError(f"{where}{at}: this is not YAML: {why}") from None
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


def _check_name(name: object, where: str) -> None:
    if name not in READERS:
        raise InputError(f"{where}: {quoted(name)} is unknown; known: {', '.join(READERS)}")


READERS: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "delay": parse_time_ns,
    "jitter": read_jitter,
    "rate": read_rate_bps,
    "trace": lambda text, _: MahimahiTrace(text),
    "overhead": read_overhead,
    "queue": read_amount,
    "aqm": read_aqm,
    "loss": read_selection,
    "reorder": read_reorder,
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
