"""From a scenario file to a :class:`Scenario`, or to messages that say where and why not."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from weirlab.errors import InputError
from weirlab.scenario.document import Document, Location, Mark, parse, read
from weirlab.scenario.model import Scenario, Section
from weirlab.traffic.flows import describe_headers, min_frame_bytes
from weirlab.traffic.sizes import parse_sizes, validate
from weirlab.traffic.spec import Flows

SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"
MAX_PROBLEMS = 20

S = TypeVar("S", bound=Section)


def load(path: Path) -> Scenario:
    """Read and check the scenario file at ``path``; paths in it become relative to its folder.

    Raises
    ------
    InputError
        With one line per problem, each beginning ``file:line:column``.
    """
    scenario = check(read(path))
    ruleset = scenario.dut.ruleset
    if ruleset is not None and not ruleset.is_absolute():
        dut = scenario.dut.model_copy(update={"ruleset": path.parent / ruleset})
        scenario = scenario.model_copy(update={"dut": dut})
    return scenario


def loads(text: str, name: str = "<text>") -> Scenario:
    """As :func:`load`, from text."""
    return check(parse(text, name))


def from_plain(value: Mapping[str, Any], name: str) -> Scenario:
    """A scenario from what ``model_dump(mode="json")`` gave, as manifests keep it."""
    return check(Document(name, dict(value)))


def section(kind: type[S], value: Mapping[str, Any], name: str = "the options") -> S:
    """One section of a scenario by itself; ``name`` says in messages where ``value`` comes from."""
    try:
        return kind.model_validate(dict(value))
    except ValidationError as error:
        problems = _first_causes(error.errors(include_url=False))
        document = Document(name, dict(value))
        _refuse(document, [(document.where(()), _explain(problem)) for problem in problems])


def check(document: Document) -> Scenario:
    """Validate a parsed document; see :func:`load`."""
    if not isinstance(document.value, dict):
        place = document.at(document.where(()))
        raise InputError(f"{place}: a scenario consists of keys such as 'name:' and 'profile:'")
    try:
        scenario = Scenario.model_validate(document.value)
    except ValidationError as error:
        problems = _first_causes(error.errors(include_url=False))
        _refuse(document, [(_place(document, problem), _explain(problem)) for problem in problems])
    conflicts = [(document.where(loc), f"{_dotted(loc)}: {reason}") for loc, reason in _conflicts(scenario)]
    if conflicts:
        _refuse(document, conflicts)
    return scenario


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a scenario file, for editors and other programs."""
    return {"$schema": SCHEMA_ID, **Scenario.model_json_schema()}


def _first_causes(problems: list[ErrorDetails]) -> list[ErrorDetails]:
    """Without "too short" of lists whose items were refused one by one."""
    inner = {problem["loc"][:-1] for problem in problems}
    return [p for p in problems if p["type"] != "too_short" or p["loc"] not in inner]


def _refuse(document: Document, problems: list[tuple[Mark, str]]) -> NoReturn:
    problems.sort(key=lambda problem: (problem[0].line, problem[0].column))
    lines = [f"{document.at(mark)}: {text}" for mark, text in problems]
    if len(lines) > MAX_PROBLEMS:
        lines[MAX_PROBLEMS:] = [f"... and {len(lines) - MAX_PROBLEMS} more"]
    head = [] if len(lines) == 1 else [f"{len(problems)} problems in {document.name}"]
    raise InputError("\n".join(head + lines))


def _conflicts(scenario: Scenario) -> Iterator[tuple[Location, str]]:
    """Keys that are right by themselves but do not go together."""
    dut = scenario.dut
    if dut.name == "ruleset":
        if dut.ruleset is None:
            yield ("dut",), "the device 'ruleset' needs the key 'ruleset' with the path of a file"
        for loc, positions in _position_lists(scenario):
            if positions != (0,):
                yield loc, "the device 'ruleset' has its own rules: write 'positions: [0]'"
        if scenario.profile.mixed:
            yield ("profile", "mixed"), "the device 'ruleset' has its own rules: leave it out"
        if scenario.profile.position_step:
            yield ("profile", "position_step"), "the device 'ruleset' has its own rules: leave it out"
    elif dut.ruleset is not None:
        yield ("dut", "ruleset"), f"goes with the device 'ruleset', not with {dut.name!r}"
    traffic, profile = scenario.traffic, scenario.profile
    if profile.stateful and dut.stateful not in profile.stateful:
        yield ("profile", "stateful"), "write [false, true] to compare, or 'stateful: true' below 'dut'"
    if profile.arrivals and traffic.arrivals not in profile.arrivals:
        yield ("profile", "arrivals"), f"must have {traffic.arrivals!r} in it, which 'traffic' asks for"
    flows = Flows(traffic.flows, traffic.l4, traffic.ip, traffic.order, traffic.seed)
    smallest = min_frame_bytes(flows)
    for loc, sizes in _size_lists(scenario):
        for i, text in enumerate(sizes):
            try:
                validate(parse_sizes(text), smallest, describe_headers(flows))
            except InputError as error:
                yield (*loc, i), str(error)


def _position_lists(scenario: Scenario) -> Iterator[tuple[Location, tuple[int, ...]]]:
    yield ("profile", "positions"), scenario.profile.positions
    for i, held_out in enumerate(scenario.verify):
        yield ("verify", i, "positions"), held_out.positions


def _size_lists(scenario: Scenario) -> Iterator[tuple[Location, tuple[str, ...]]]:
    yield ("profile", "sizes"), scenario.profile.sizes
    for i, held_out in enumerate(scenario.verify):
        yield ("verify", i, "sizes"), held_out.sizes


def _place(document: Document, problem: ErrorDetails) -> Mark:
    return document.where(problem["loc"], key=problem["type"] == "extra_forbidden")


def _explain(problem: ErrorDetails) -> str:
    loc = problem["loc"]
    where = _dotted(loc)
    match problem["type"]:
        case "extra_forbidden":
            key, known = str(loc[-1]), _known_keys(loc[:-1])
            close = difflib.get_close_matches(key, known, n=1)
            advice = f"did you mean {close[0]!r}?" if close else f"known keys are {', '.join(known)}"
            return f"{where}: unknown key; {advice}"
        case "missing":
            inside = f"{_dotted(loc[:-1])}: " if loc[:-1] else ""
            return f"{inside}the key {str(loc[-1])!r} is missing"
        case "value_error":
            reason = str(problem.get("ctx", {}).get("error", problem["msg"]))
        case "model_type" | "model_attributes_type" | "dict_type":
            reason = f"must have keys ({', '.join(_known_keys(loc))}), one per line below it"
        case "too_short":
            reason = "must not be empty"
        case "tuple_type" | "list_type":
            reason = "must be a list, such as [1, 2]"
        case _:
            reason = problem["msg"].replace("Input should", "must", 1)
    found = problem["input"]
    if isinstance(found, (str, int, float, bool)) or found is None:
        shown = "nothing" if found is None else repr(found)
        if shown not in reason:
            reason = f"{reason} (found {shown})"
    return f"{where}: {reason}" if where else reason


def _dotted(loc: Sequence[int | str]) -> str:
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def _known_keys(loc: Sequence[int | str]) -> list[str]:
    """The keys that the section at ``loc`` may have."""
    section: type[BaseModel] = Scenario
    for part in loc:
        if isinstance(part, str) and part in section.model_fields:
            section = _section_in(section.model_fields[part].annotation) or section
    return list(section.model_fields)


def _section_in(annotation: Any) -> type[BaseModel] | None:
    """The section in ``X``, ``X | None`` or ``tuple[X, ...]``."""
    if isinstance(annotation, type):
        return annotation if issubclass(annotation, BaseModel) else None
    for argument in typing.get_args(annotation):
        if (found := _section_in(argument)) is not None:
            return found
    return None
