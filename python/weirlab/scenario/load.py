"""Validates plain values as a scenario; error messages say what is wrong and where."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar, overload

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from weirlab.base import limits
from weirlab.base.errors import InputError
from weirlab.base.files import HOST_FILES, Inputs
from weirlab.base.quoting import MOST_QUOTED, quoted, shortened
from weirlab.scenario.document import Document, Location, Mark
from weirlab.scenario.model import Root, Section
from weirlab.scenario.profile import Scenario

MAX_PROBLEMS = 20

S = TypeVar("S", bound=Section)
R = TypeVar("R", bound=Root)
M = TypeVar("M", bound=BaseModel)


@overload
def from_plain(value: Mapping[str, Any], name: str) -> Scenario: ...
@overload
def from_plain(value: Mapping[str, Any], name: str, kind: type[R]) -> R: ...
def from_plain(value: Mapping[str, Any], name: str, kind: type[Root] = Scenario) -> Root:
    """A scenario of ``kind`` from the output of ``model_dump(mode="json")``, as manifests keep it."""
    return checked(Document(name, dict(value)), kind)


@dataclass(frozen=True)
class OptionValue:
    """A scenario's value from a command-line option; None: not given, so the default applies."""

    option: str
    value: Any


@overload
def from_options(value: Mapping[str, Any]) -> Scenario: ...
@overload
def from_options(value: Mapping[str, Any], kind: type[R]) -> R: ...
def from_options(value: Mapping[str, Any], kind: type[Root] = Scenario) -> Root:
    """A scenario of ``kind`` from the options of a command.

    Messages name the option of each :class:`OptionValue` value, at any depth of ``value``.
    """
    return checked(_of_options(value), kind)


def section(kind: type[S], value: Mapping[str, Any]) -> S:
    """One section of a scenario by itself, from options; see :func:`from_options`."""
    return validated(_of_options(value), kind)


def _of_options(value: Mapping[str, Any]) -> Document:
    options: dict[Location, str] = {}

    def plain(found: Any, loc: Location) -> Any:
        if isinstance(found, OptionValue):
            options[loc] = found.option
            return plain(found.value, loc)
        if isinstance(found, Mapping):
            values = {key: plain(each, (*loc, key)) for key, each in found.items()}
            return {
                key: each for key, each in values.items() if each is not None or (*loc, key) not in options
            }
        if isinstance(found, list):
            return [plain(each, (*loc, index)) for index, each in enumerate(found)]
        return found

    return Document("the options", plain(value, ()), options=options)


def validated(document: Document, kind: type[M], about: str = "") -> M:
    """``document`` as ``kind``; see :func:`checked`."""
    try:
        return kind.model_validate(document.value)
    except ValidationError as error:
        found = _first_causes(error.errors(include_url=False))
        refuse(document, [(_place(document, each), _told(document, each, kind, about)) for each in found])


def problems(value: Mapping[str, Any], kind: type[BaseModel]) -> list[tuple[Location, str]]:
    """Why ``value`` is not a valid ``kind``: each place and problem; empty if it is valid."""
    document = Document("", dict(value))
    try:
        kind.model_validate(document.value)
    except ValidationError as error:
        found = _first_causes(error.errors(include_url=False))
        return [(problem["loc"], _told(document, problem, kind)) for problem in found]
    return []


def checked(document: Document, kind: type[R], about: str = "", *, inputs: Inputs = HOST_FILES) -> R:
    """Validate a parsed document as a scenario of ``kind``; ``about`` lists the keys of other kinds.

    Files that it names are not opened. Keys that name one are refused if ``inputs`` may not open it.

    Raises ``InputError`` with one line per problem, each beginning ``file:line:column``.
    """
    scenario = validated(document, kind, about)
    refuse_files(scenario, inputs, document)
    conflicts = [
        (document.where(loc), _at(document, loc, reason))
        for loc, reason in (*_too_much(scenario), *scenario.conflicts())
    ]
    if conflicts:
        refuse(document, conflicts)
    return scenario


def refuse_files(scenario: Root, inputs: Inputs, document: Document | None = None) -> None:
    """Raise ``InputError``, with the keys that name a file, if ``inputs`` opens none.

    ``document`` has their places.
    """
    if inputs.refusal:
        about = document or Document("the scenario", {})
        named = [(about.where(loc), _at(about, loc, inputs.refusal)) for loc in scenario.files()]
        if named:
            refuse(about, named)


def _too_much(scenario: Root) -> Iterator[tuple[tuple[int | str, ...], str]]:
    for loc, trials in scenario.trials():
        if trials > limits.MOST_TRIALS:
            yield (
                loc,
                f"{trials:,} trials are planned here, and at most {limits.MOST_TRIALS:,} are possible; list "
                "fewer settings or take fewer repetitions",
            )


def _first_causes(problems: list[ErrorDetails]) -> list[ErrorDetails]:
    """``problems`` without "too short" for lists in which items themselves were refused."""
    inner = {problem["loc"][:depth] for problem in problems for depth in range(len(problem["loc"]))}
    return [p for p in problems if p["type"] != "too_short" or p["loc"] not in inner]


def refuse(document: Document, problems: list[tuple[Mark, str]]) -> NoReturn:
    """Raise ``InputError`` with ``problems`` in the order of their places."""
    problems.sort(key=lambda problem: (problem[0].line, problem[0].column))
    # For options, the text already names the place.
    lines = [text if document.options else f"{document.at(mark)}: {text}" for mark, text in problems]
    if len(lines) > MAX_PROBLEMS:
        lines[MAX_PROBLEMS:] = [f"... and {len(lines) - MAX_PROBLEMS} more"]
    head = [] if len(lines) == 1 else [f"{len(problems)} problems in {document.name}"]
    raise InputError("\n".join(head + lines))


def _place(document: Document, problem: ErrorDetails) -> Mark:
    return document.where(problem["loc"], key=problem["type"] == "extra_forbidden")


def _at(document: Document, loc: Sequence[int | str], reason: str) -> str:
    """``reason``, preceded by the option, or else the key, that it is about."""
    if option := document.option(loc):
        return f"{option}: {reason}"
    named = document.name if document.options else ""
    return ": ".join(part for part in (named, _dotted(loc), reason) if part)


def _told(document: Document, problem: ErrorDetails, root: type[BaseModel], about: str = "") -> str:
    """The message for ``problem``, preceded by its place; a missing key is reported for its section."""
    loc = problem["loc"][:-1] if problem["type"] == "missing" else problem["loc"]
    return _at(document, loc, _explain(problem, root, about))


def _explain(problem: ErrorDetails, root: type[BaseModel], about: str) -> str:
    loc = problem["loc"]
    match problem["type"]:
        case "extra_forbidden":
            key, known = str(loc[-1]), _known_keys(root, loc[:-1])
            close = difflib.get_close_matches(key, known, n=1)
            advice = f"did you mean {quoted(close[0])}?" if close else f"known keys are {', '.join(known)}"
            return f"unknown key; {advice}"
        case "missing":
            told = ""
            if about and loc == (getattr(root, "KEY", ""),):
                told = f"; the possible keys are {about}"
            return f"the key {str(loc[-1])!r} is missing{told}"
        case "value_error":
            reason = str(problem.get("ctx", {}).get("error", problem["msg"]))
        case "model_type" | "model_attributes_type" | "dict_type":
            reason = f"must have keys ({', '.join(_known_keys(root, loc))}), one per line below it"
        case "too_long":
            many, most = problem["ctx"]["actual_length"], problem["ctx"]["max_length"]
            # A number is written out where a text is expected.
            what = "characters" if isinstance(problem["input"], (str, int, float)) else "items"
            reason = f"{many:,} {what}, and at most {most:,} are possible"
        case "too_short":
            reason = "must not be empty"
        case "tuple_type" | "list_type":
            reason = "must be a list, such as [1, 2]"
        case _:
            reason = problem["msg"].replace("Input should", "must", 1)
    found = problem["input"]
    if isinstance(found, (str, int, float, bool)) or found is None:
        shown = "nothing" if found is None else quoted(found)
        if shown not in reason:
            reason = f"{reason} (found {shown})"
    return reason


def _dotted(loc: Sequence[int | str]) -> str:
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{shortened(part, MOST_QUOTED)}"
    return text.removeprefix(".")


def _known_keys(root: type[BaseModel], loc: Sequence[int | str]) -> list[str]:
    """The keys that the section at ``loc`` of ``root`` may have."""
    section = root
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
