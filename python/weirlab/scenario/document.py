"""Converts YAML text to plain values and records the place of each.

This module knows nothing about scenarios. Scalars follow YAML 1.2: ``on`` and ``yes`` are words, and
``64:7`` is text, not a number in base 60 as in YAML 1.1 (frame-size mixes look like that).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import yaml

from weirlab.base import files, limits
from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted

Location = tuple[int | str, ...]


@dataclass(frozen=True)
class Mark:
    """A place in the text; line and column count from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Document:
    """A YAML document: ``value`` as plain dicts, lists and scalars, and the place of each."""

    name: str
    value: Any
    values: dict[Location, Mark] = field(default_factory=dict)
    keys: dict[Location, Mark] = field(default_factory=dict)
    options: dict[Location, str] = field(default_factory=dict)
    """The options that gave the values, if they come from a command line."""

    def option(self, location: Sequence[int | str]) -> str | None:
        """The option of the value at ``location``, or of the nearest enclosing value."""
        path = tuple(location)
        while path and path not in self.options:
            path = path[:-1]
        return self.options.get(path)

    def where(self, location: Sequence[int | str], *, key: bool = False) -> Mark:
        """Place of the value (or of its ``key``) at ``location``, else of the nearest enclosing value."""
        path = tuple(location)
        if key and path in self.keys:
            return self.keys[path]
        while path and path not in self.values:
            path = path[:-1]
        return self.values.get(path, Mark(1, 1))

    def at(self, mark: Mark) -> str:
        """``file:line:column``, which editors understand; only the name if there was no text."""
        if not self.values:
            return self.name
        return f"{self.name}:{mark.line}:{mark.column}"


class _Yaml12(yaml.SafeLoader):
    """Composes nodes with the implicit types of YAML 1.2's core schema, with limits on number and depth."""

    def __init__(self, text: str, most_values: int) -> None:
        super().__init__(text)
        self._most_values = most_values
        self._composed = 0
        self._level = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """As inherited, with limits: a short text may describe a very large document."""
        self._composed += 1
        self._level += 1
        try:
            if self._composed > self._most_values:
                self._refuse(_too_many(self._most_values))
            if self._level > limits.MOST_LEVELS:
                self._refuse(_most_levels())
            return super().compose_node(parent, index)
        finally:
            self._level -= 1

    def _refuse(self, problem: str) -> NoReturn:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        raise _YamlLimitError(problem, event.start_mark)


class _YamlLimitError(yaml.MarkedYAMLError):
    def __init__(self, problem: str, mark: yaml.Mark) -> None:
        super().__init__(problem=problem, problem_mark=mark)


def _too_many(most_values: int) -> str:
    return f"more than {most_values:,} values, which is more than such a file needs"


def _most_levels() -> str:
    return f"nested more than {limits.MOST_LEVELS} levels deep"


_Yaml12.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9][0-9_]*", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+."),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
):
    _Yaml12.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), list(_first))


def read(path: Path) -> Document:
    """Read the YAML file at ``path``.

    Raises
    ------
    InputError
        The file cannot be read, or is not YAML; with ``file:line:column`` where there is one.
    """
    return parse(source(path), str(path))


def source(path: Path) -> str:
    """The unchanged text of the scenario file at ``path``; see :func:`read`."""
    return files.read_text(path, "a scenario file", limits.MOST_BYTES)


def parse(text: str, name: str = "<text>", most_values: int = limits.MOST_VALUES) -> Document:
    """Parse one YAML document from ``text``; ``name`` precedes line numbers in messages."""
    try:
        # The loader's constructor already checks the text, so it can fail too.
        loader = _Yaml12(text, most_values)
        root = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        said = str(error.problem or error.context)
        wrong = said if isinstance(error, _YamlLimitError) else f"not valid YAML: {said}"
        raise InputError(f"{place}: {wrong}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InputError(f"{name}:{line}: not valid YAML: {error.reason}") from None
    document = Document(name, None if root is None else {})
    if root is None:
        return document
    value = _YamlConverter(document, most_values).convert(root, ())
    return Document(name, value, document.values, document.keys)


class _YamlConverter:
    """Converts YAML nodes to plain values and records their places."""

    def __init__(self, document: Document, most_values: int) -> None:
        self._document = document
        self._most_values = most_values
        self._open: list[yaml.Node] = []
        self._count = 0

    def convert(self, node: yaml.Node, path: Location, alias: Mark | None = None) -> Any:
        """The value of ``node``; ``alias`` is where an alias stands for it or for a value around it."""
        self._document.values[path] = alias or _mark(node)
        self._count += 1
        if node in self._open:
            self._fail(node, "an alias (*) that contains itself")
        # The values in the text were counted before: only aliases can still exceed the limit.
        if self._count > self._most_values:
            self._fail(node, f"with aliases (*) expanded, {_too_many(self._most_values)}")
        if len(path) >= limits.MOST_LEVELS:
            self._fail(node, f"with aliases (*) expanded, {_most_levels()}")
        self._open.append(node)
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path, alias)
            if isinstance(node, yaml.SequenceNode):
                return [
                    self.convert(item, (*path, i), alias or _alias(node, item))
                    for i, item in enumerate(node.value)
                ]
            return self._scalar(node)
        finally:
            self._open.pop()

    def _mapping(self, node: yaml.MappingNode, path: Location, alias: Mark | None) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._fail(key_node, "a key must be a word")
            key = str(key_node.value)
            if key in result:
                first = self._document.keys[(*path, key)]
                self._fail(key_node, f"key {quoted(key)} appears twice (first on line {first.line})")
            self._document.keys[(*path, key)] = alias or _mark(key_node)
            result[key] = self.convert(value_node, (*path, key), alias or _alias(key_node, value_node))
        return result

    def _scalar(self, node: yaml.Node) -> str | int | float | bool | None:
        text = str(node.value)
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        try:
            if kind == "str":
                return text
            if kind == "null":
                return None
            if kind == "bool":
                return text.lower() == "true"
            if kind == "int":
                return int(text)
            if kind == "float":
                return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        except ValueError:
            self._fail(node, f"{quoted(text)} is not a number")
        self._fail(node, f"the tag {quoted(node.tag)} is not supported here")

    def _fail(self, node: yaml.Node, what: str) -> NoReturn:
        raise InputError(f"{self._document.at(_mark(node))}: {what}")


def _mark(node: yaml.Node) -> Mark:
    return Mark(node.start_mark.line + 1, node.start_mark.column + 1)


def _alias(before: yaml.Node, node: yaml.Node) -> Mark | None:
    """The place of ``before`` if an alias follows it: the text of ``node``, at its anchor, is further up."""
    return _mark(before) if node.start_mark.index < before.start_mark.index else None
