"""Groups of options: a dataclass whose fields are options of a command.

A command that takes a group has one parameter instead of many, and gets one typed object. The name, type,
range, default and help of an option are defined at its field and nowhere else::

    @dataclass(frozen=True)
    class LabOptions:
        PANEL: ClassVar = "Device under test"

        lab: Annotated[LabKind, typer.Option(help="Network namespaces, or simulated.")] = "auto"
        backend: Annotated[Backend, typer.Option(help="How packets are sent.")] = "auto"


    def calibrate(ctx: typer.Context, where: LabOptions) -> None: ...


    app.command("calibrate")(grouped(calibrate))

An option is called like its field unless it has a name of its own; a flag needs one (``--yes``), or it gets
a negation. ``PANEL`` is the help panel for options that do not name one. A field may itself be a group: its
options take its place. ``Annotated[LabOptions, only("lab")]`` takes some of the options; the others keep
their defaults.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property, update_wrapper
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

from typer.models import ParameterInfo

_ANNOTATED: Final[Any] = Annotated


@dataclass(frozen=True)
class Choice:
    """A selection of the options of a group for a command."""

    names: tuple[str, ...]
    leaves_out: bool

    def of(self, known: list[str]) -> list[str]:
        """The selected ones of the fields ``known``."""
        if unknown := [name for name in self.names if name not in known]:
            raise TypeError(f"no such option in the group: {', '.join(unknown)}; it has {', '.join(known)}")
        return [name for name in known if name not in self.names] if self.leaves_out else list(self.names)


def only(*names: str) -> Choice:
    """Select only the options of these fields, in this order."""
    return Choice(names, leaves_out=False)


def without(*names: str) -> Choice:
    """Select all options of a group except those of these fields."""
    return Choice(names, leaves_out=True)


def given(said: Any) -> dict[str, Any]:
    """The entries of a mapping, or the fields of a group by name, that are not None."""
    values = dict(said) if isinstance(said, Mapping) else _fields(said)
    return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class OptionReading:
    """In the annotation of an option whose value is not yet that of its key in a scenario: how it is read.

    Annotations cannot refer to names of their module in a lambda: give such a reading a name.
    """

    read: Callable[[Any], Any]


WORDS: Final = OptionReading(lambda text: [word.strip() for word in text.split(",")])
PERCENT: Final = OptionReading(lambda percent: percent / 100)


def typed(said: Any, **options: str) -> dict[str, Any]:
    """The entries of a mapping or a group that are not None, each with the option that users type for it.

    ``options`` gives the options of a mapping's keys; a group's fields define theirs, and their
    :class:`OptionReading`; groups in it are left out. The result is for ``weirlab.scenario.from_options``.
    """
    from weirlab.scenario import OptionValue

    values = given(said)
    if not isinstance(said, Mapping):
        options, hints = spelled(type(said)), get_type_hints(type(said), include_extras=True)
        values = {name: _read(value, hints[name]) for name, value in values.items() if name in options}
    return {
        name: OptionValue(options[name], value) if name in options else value
        for name, value in values.items()
    }


def _read(value: Any, annotation: Any) -> Any:
    for extra in get_args(annotation):
        if isinstance(extra, OptionReading):
            return extra.read(value)
    return value


def spelled(group: type[Any]) -> dict[str, str]:
    """The options of a group's fields as users write them, without their negations; not those of groups in
    it."""
    hints = get_type_hints(group, include_extras=True)
    # Of an annotated option, Typer keeps the first name as the default.
    return {
        field.name: f"--{field.name.replace('_', '-')}"
        if extra.default is ...
        else str(extra.default).partition("/")[0]
        for field in dataclasses.fields(group)
        for extra in get_args(hints[field.name])
        if isinstance(extra, ParameterInfo)
    }


def _fields(group: Any) -> dict[str, Any]:
    return {field.name: getattr(group, field.name) for field in dataclasses.fields(group)}


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` for Typer: with the options of its groups instead of the groups.

    The options are built when the signature is read. ``inspect.signature`` then raises ``TypeError`` if a
    selected option is not in its group, and ``ValueError`` if two options have the same name.
    """
    return _GroupCommand(command)


class _GroupCommand:
    """Calls ``command`` with its groups; builds their options lazily, as the overview does not need them."""

    def __init__(self, command: Callable[..., None]) -> None:
        self._command = command
        update_wrapper(self, command, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
        # The annotations in the signature are not names to look up.
        self.__annotations__ = {}

    def __call__(self, **values: Any) -> None:
        self._command(**self._everything.made(values))

    @property
    def __signature__(self) -> Signature:
        """The result of inspect.signature(), from which Typer makes the options."""
        return Signature(list(self._everything.parameters()))

    @cached_property
    def _everything(self) -> _Group:
        hints = get_type_hints(self._command, include_extras=True)
        members = {
            name: _Group.of(hints[name]) or _option(name, hints[name], parameter.default)
            for name, parameter in signature(self._command).parameters.items()
        }
        return _Group(dict, members)


@dataclass(frozen=True)
class _Group:
    """A group's constructor, and its options and inner groups by name."""

    make: Callable[..., Any]
    members: Mapping[str, Parameter | _Group]

    @classmethod
    def of(cls, annotation: Any) -> _Group | None:
        """The group that ``annotation`` stands for; None if it is an option."""
        kind, *extras = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
        if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
            return None
        hints = get_type_hints(kind, include_extras=True)
        fields = {field.name: field for field in dataclasses.fields(kind)}
        choice = next((extra for extra in extras if isinstance(extra, Choice)), without())
        members: dict[str, Parameter | _Group] = {}
        for name in choice.of(list(fields)):
            default = fields[name].default
            members[name] = cls.of(hints[name]) or _option(
                name,
                _in_panel(hints[name], getattr(kind, "PANEL", None)),
                Parameter.empty if default is dataclasses.MISSING else default,
            )
        return cls(kind, members)

    def parameters(self) -> Iterator[Parameter]:
        """All options in the group, in order."""
        for member in self.members.values():
            if isinstance(member, _Group):
                yield from member.parameters()
            else:
                yield member

    def made(self, values: Mapping[str, Any]) -> Any:
        """Build the group from the values of its options."""
        return self.make(
            **{
                name: member.made(values) if isinstance(member, _Group) else values[name]
                for name, member in self.members.items()
            }
        )


def _option(name: str, annotation: Any, default: Any) -> Parameter:
    # The order is that of the help: an option without default may follow one that has one.
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _in_panel(annotation: Any, panel: str | None) -> Any:
    """The annotation of an option that is in ``panel``, unless it names one itself."""
    if panel is None or get_origin(annotation) is not Annotated:
        return annotation
    kind, *extras = get_args(annotation)
    placed = [_placed(extra, panel) if isinstance(extra, ParameterInfo) else extra for extra in extras]
    return _ANNOTATED[(kind, *placed)]


def _placed(option: ParameterInfo, panel: str) -> ParameterInfo:
    if option.rich_help_panel is not None:
        return option
    moved = copy(option)
    moved.rich_help_panel = panel
    return moved
