"""Scenario files of every installed study: reading, telling their kinds apart, and their JSON Schema.

Each kind has a top-level key that no other kind has, such as ``profile:`` or ``capacity:``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic.json_schema import models_json_schema

from weirlab.base.errors import InputError
from weirlab.base.files import HOST_FILES, Inputs
from weirlab.scenario.document import Document, parse, read
from weirlab.scenario.load import checked
from weirlab.scenario.model import Root
from weirlab.studies.registry import SCENARIO, providing, studies

SCHEMA_ID: Final = "https://json-schema.org/draft/2020-12/schema"


def roots() -> Mapping[str, type[Root]]:
    """The models of all kinds of scenarios, by the top-level key of the kind."""
    return {key: _root(key) for key in providing(SCENARIO)}


def _root(key: str) -> type[Root]:
    root = studies()[key].scenario()
    assert root is not None
    return root


def load(path: Path) -> Root:
    """Read and check the scenario file at ``path``; paths in it become relative to its folder.

    Raises
    ------
    InputError
        With one line per problem, each beginning ``file:line:column``.
    """
    return check(read(path)).beside(path.parent)


def loads(text: str, name: str = "<text>") -> Root:
    """As :func:`load`, from text."""
    return check(parse(text, name))


def check(document: Document, *, inputs: Inputs = HOST_FILES) -> Root:
    """Validate a parsed document of any kind; see :func:`load`, and ``checked`` for ``inputs``."""
    if not isinstance(document.value, dict):
        place = document.at(document.where(()))
        raise InputError(f"{place}: a scenario consists of keys such as 'name:' and 'profile:'")
    about = telling(document.value)
    if len(about) > 1:
        place = document.at(document.where((about[1],), key=True))
        raise InputError(f"{place}: {about[1]}: the file has '{about[0]}' already; write a file for each")
    kind = kind_of(document.value)
    return checked(document, _root(kind or providing(SCENARIO)[0]), "" if kind else listed(), inputs=inputs)


def telling(keys: Iterable[str]) -> list[str]:
    """Those of ``keys`` that name a kind; with more than one the kind is ambiguous."""
    known = providing(SCENARIO)
    return [key for key in keys if key in known]


def kind_of(keys: Iterable[str]) -> str | None:
    """The kind of a file with these top-level ``keys``, which may be misspelt.

    None if no key resembles a kind.
    """
    keys, known = list(keys), providing(SCENARIO)
    for key in telling(keys):
        return key
    for key in keys:
        if close := difflib.get_close_matches(key, known, n=1):
            return close[0]
    return None


def listed() -> str:
    """The keys of all kinds as a phrase, for messages."""
    keys = [repr(key) for key in providing(SCENARIO)]
    return "".join(keys) if len(keys) < 2 else f"{', '.join(keys[:-1])} and {keys[-1]}"


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a scenario file of any kind, for editors and other programs."""
    kinds = list(roots().values())
    names, schema = models_json_schema([(kind, "validation") for kind in kinds])
    return {
        "$schema": SCHEMA_ID,
        "title": "Weir scenario",
        "description": "What to test, where, and what to do with the results.",
        "oneOf": [names[kind, "validation"] for kind in kinds],
        "$defs": schema["$defs"],
    }
