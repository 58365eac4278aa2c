"""Scenarios that name files of this host: parsing opens none, and nothing else does without the right."""

from __future__ import annotations

import ctypes
import json
import os
import struct
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import BaseModel

from weirlab.base.errors import InputError, WeirError
from weirlab.base.files import HOST_FILES, NO_FILES, Inputs
from weirlab.emulation.reading import READERS
from weirlab.jobs.progress import SilentProgress
from weirlab.lab.dut import WITH_VARIETIES, drivers, files_of, make
from weirlab.numbering import plan as plans
from weirlab.numbering.plan import ready
from weirlab.scenario.document import Document
from weirlab.scenario.model import Root
from weirlab.store import Store
from weirlab.studies import runner, scenarios
from weirlab.web.scenarios.asking import ScenarioRequest, understood

SECRET: Final = "root:$6$c0ffee:19000:0:99999:7:::\nWEIR_WEB_TOKEN=deadbeefdeadbeef\n"
FRAGMENTS: Final = ("root:", "c0ffee", "19000", "WEIR_WEB_TOKEN", "deadbeef")

_IN_OPEN: Final = 0x20
_HERE: Final = "@"
"""Takes the place of the file's path below."""

_RULESET: Final = {"name": "ruleset", "ruleset": _HERE}
_BESIDE: Final = {"include[0]": {"include": [_HERE]}, "ipset": {"ipset": _HERE}}

INPUTS: Final[Mapping[str, dict[str, Any]]] = {
    "dut.ruleset": {"profile": {"positions": [0]}, "dut": {"name": "ruleset", "ruleset": _HERE}},
    "dut.image": {"profile": {"positions": [0]}, "dut": {"name": "image", "image": _HERE}},
    "dut.name": {"profile": {}, "dut": {"name": f"link:trace={_HERE}"}},
    "dut.name of a chain": {
        "profile": {"positions": [0]},
        "dut": {"chain": ["forward", f"link:trace={_HERE}"]},
    },
    "lab.model": {"profile": {"positions": [0]}, "lab": {"kind": "sim", "model": _HERE}},
    "dut.name of a capacity": {"capacity": {}, "dut": {"name": f"link:up.delay=1ms:down.trace={_HERE}"}},
    "capacity.predict.model": {"capacity": {"predict": {"model": _HERE}}},
    "capacity.predict.tunnel": {"capacity": {"predict": {"model": _HERE, "tunnel": _HERE}}},
    "campaign.scenarios.one": {"campaign": {"scenarios": {"one": _HERE}}},
    "campaign.folder": {"campaign": {"scenarios": {"one": {"profile": {"positions": [0]}}}, "folder": _HERE}},
    "tcp.path.both.trace": {"tcp": {"path": {"both": {"trace": _HERE}}}},
    "tcp.path.up.trace": {"tcp": {"path": {"up": {"trace": _HERE}}}},
    "tcp.path.down.trace": {"tcp": {"path": {"down": {"trace": _HERE}}}},
    "parallel.cases[0].paths[0].both.trace": {
        "parallel": {"cases": [{"name": "c", "paths": [{"both": {"trace": _HERE}}]}]}
    },
    "parallel.cases[0].paths[1].up.trace": {
        "parallel": {"cases": [{"name": "c", "paths": [{}, {"up": {"trace": _HERE}}]}]}
    },
    "parallel.cases[0].paths[0].down.trace": {
        "parallel": {"cases": [{"name": "c", "paths": [{"down": {"trace": _HERE}}]}]}
    },
    "voice.plan": {"voice": {"plan": _HERE}},
    "voice.through.ruleset": {"voice": {"plan": "campus", "through": {"name": "ruleset", "ruleset": _HERE}}},
    "voice.through.image": {"voice": {"plan": "campus", "through": {"name": "image", "image": _HERE}}},
    "voice.through.name": {"voice": {"plan": "campus", "through": {"name": f"link:trace={_HERE}"}}},
    **{
        f"{study}.through.{key}": {study: {"plan": "campus", "through": {**_RULESET, **named}}}
        for study in ("voice", "voice_load")
        for key, named in _BESIDE.items()
    },
    **{
        f"dut.{key}": {"profile": {"positions": [0]}, "dut": {**_RULESET, **named}}
        for key, named in _BESIDE.items()
    },
    "voice_load.plan": {"voice_load": {"plan": _HERE}},
    "voice_load.through.ruleset": {
        "voice_load": {"plan": "campus", "through": {"name": "ruleset", "ruleset": _HERE}}
    },
    "voice_load.through.image": {
        "voice_load": {"plan": "campus", "through": {"name": "image", "image": _HERE}}
    },
    "voice_load.through.name": {
        "voice_load": {"plan": "campus", "through": {"name": f"link:up.trace={_HERE}"}}
    },
}
"""A scenario for each key that names a file to read."""

OUTPUTS: Final[Mapping[str, dict[str, Any]]] = {
    "report.out": {"profile": {}, "report": {"out": _HERE}},
    "report.plots": {"profile": {}, "report": {"plots": _HERE}},
    "monitor.keep": {"monitor": {"keep": _HERE}},
}
"""The same for a file or a folder to write."""


class Watch:
    """Whether anything opened a file, in this process or another."""

    def __init__(self, path: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert libc.inotify_add_watch(self._fd, os.fsencode(path), _IN_OPEN) >= 0

    def opened(self) -> int:
        """How often since the last call."""
        try:
            return len(os.read(self._fd, 1 << 16)) // struct.calcsize("iIII")
        except BlockingIOError:
            return 0

    def close(self) -> None:
        os.close(self._fd)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(SECRET)
    return path


@pytest.fixture
def watch(secret: Path) -> Iterator[Watch]:
    found = Watch(secret)
    yield found
    found.close()


def naming(document: Mapping[str, Any], path: Path) -> Document:
    """A document with ``path`` in the place of ``_HERE``."""

    def replaced(value: Any) -> Any:
        match value:
            case str():
                return value.replace(_HERE, str(path))
            case dict():
                return {key: replaced(each) for key, each in value.items()}
            case list():
                return [replaced(each) for each in value]
        return value

    return Document("mine.yaml", {"name": "n", "report": None, **replaced(document)})


@contextmanager
def refusing(refusal: str) -> Iterator[None]:
    """The block is refused with these words, and without any of the file's."""
    with pytest.raises(WeirError) as caught:
        yield
    assert refusal in str(caught.value)
    assert not [each for each in FRAGMENTS if each in str(caught.value)]


def test_the_watch_notices_an_open_file(secret: Path, watch: Watch) -> None:
    assert watch.opened() == 0
    secret.read_text()
    assert watch.opened() == 1


@pytest.mark.parametrize("key", [*INPUTS, *OUTPUTS])
def test_a_key_that_names_a_file_is_parsed_without_opening_it(key: str, secret: Path, watch: Watch) -> None:
    document = naming({**INPUTS, **OUTPUTS}[key], secret)
    assert [*scenarios.check(document).files()]
    assert watch.opened() == 0
    place = key.partition(" ")[0]
    with refusing(f"{place}: {NO_FILES.refusal}"):
        scenarios.check(document, inputs=NO_FILES)
    assert watch.opened() == 0


@pytest.mark.parametrize("key", INPUTS)
def test_without_the_right_no_study_opens_a_file_whatever_was_checked_before(
    key: str, secret: Path, watch: Watch, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = scenarios.check(naming({**INPUTS[key], **in_namespaces(INPUTS[key])}, secret))
    refused = Inputs("nothing is opened here")
    with refusing(refused.refusal):
        runner.run_scenario(store, asked, SilentProgress(), inputs=refused)
    monkeypatch.setattr(runner, "refuse_files", lambda asked, inputs: None)
    with refusing(refused.refusal):
        runner.run_scenario(store, asked, SilentProgress(), inputs=refused)
    assert watch.opened() == 0
    assert not [*store.runs()]


# Every file is a disk image, and a folder is not read.
@pytest.mark.parametrize("key", [key for key in INPUTS if not key.endswith(("image", "folder"))])
def test_with_the_right_what_is_wrong_with_a_file_is_told_without_its_content(
    key: str, secret: Path, watch: Watch, store: Store
) -> None:
    asked = scenarios.check(naming({**INPUTS[key], **in_namespaces(INPUTS[key])}, secret))
    with refusing(str(secret)) if "trace" not in str(INPUTS[key]) else refusing("line 1"):
        runner.run_scenario(store, asked, SilentProgress(), inputs=HOST_FILES)
    assert watch.opened()


def in_namespaces(document: Mapping[str, Any]) -> dict[str, Any]:
    """The lab of kinds that have one, unless they say which."""
    has_lab = "lab" not in document and {"profile", "capacity"} & document.keys()
    return {"lab": {"kind": "netns"}} if has_lab else {}


def test_every_key_with_a_path_is_tried_here() -> None:
    known = {key.partition(" ")[0].replace("[0]", "").replace("[1]", "") for key in (*INPUTS, *OUTPUTS)}
    known |= {key.removesuffix(".one") for key in known}  # a name that the user gives
    for root in scenarios.roots().values():
        assert {place for place in paths(root) if place.split(".")[0] not in ("report", "dut")} <= known


def test_no_key_of_any_scenario_opens_the_file_that_it_names(secret: Path, watch: Watch) -> None:
    tried = 0
    for kind, root in scenarios.roots().items():
        for document in documents(root, str(secret)):
            tried += 1
            value = {"name": "n", kind: {}, **document}
            for inputs in (HOST_FILES, NO_FILES):
                try:
                    found = scenarios.check(Document("mine.yaml", value), inputs=inputs)
                except InputError as error:
                    # The path itself may be quoted; the content may not.
                    told = str(error).replace(str(secret), "")
                    assert not [each for each in FRAGMENTS if each in told]
                else:
                    assert inputs is HOST_FILES or not [*found.files()]
    assert watch.opened() == 0
    assert tried > 100


@pytest.mark.parametrize("kind", [*drivers(), *WITH_VARIETIES])
def test_no_name_of_a_device_opens_a_file_unless_the_right_is_given(
    kind: str, secret: Path, watch: Watch
) -> None:
    words = (
        *READERS, "advert", "hard", "soft", "rekey", "outage", "suite", "file", "image", "ruleset", "match",
    )  # fmt: skip
    suffixes = [str(secret), *(f"{dot}{word}={secret}" for word in words for dot in ("", "up.", "down."))]
    for suffix in suffixes:
        try:
            named = files_of(f"{kind}:{suffix}")
        except InputError:
            continue
        assert [*map(str, named)] == [str(secret)] * len(named)
        if named:
            with refusing(NO_FILES.refusal):
                make(f"{kind}:{suffix}")
    assert watch.opened() == 0


@pytest.mark.parametrize("kind", ["ruleset", "image"])
def test_a_device_with_a_file_opens_it_with_the_right_only(kind: str, secret: Path, watch: Watch) -> None:
    with refusing(NO_FILES.refusal):
        make(kind, secret)
    assert watch.opened() == 0


def test_tables_beside_a_plan_are_opened_with_the_right_only(secret: Path, watch: Watch) -> None:
    text = (ready.FOLDER / "campus.yaml").read_text() + f"tables: [{secret.name}]\n"
    with refusing(NO_FILES.refusal):
        plans.loads(text, folder=secret.parent)
    assert watch.opened() == 0
    with refusing(f"{secret}:1: cell 1 is not the name of a column"):
        plans.loads(text, folder=secret.parent, inputs=HOST_FILES)


def test_a_plan_that_comes_with_weir_needs_no_right_whatever_is_in_the_folder(
    secret: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret.rename(secret.with_name("campus"))
    monkeypatch.chdir(secret.parent)
    assert plans.of_scenario(Path("campus"), NO_FILES).plan.engines
    assert watch.opened() == 0


@pytest.mark.parametrize("key", [*INPUTS, *OUTPUTS])
def test_the_page_refuses_every_such_key(key: str, secret: Path, watch: Watch) -> None:
    text = json.dumps(naming({**INPUTS, **OUTPUTS}[key], secret).value)
    place = key.partition(" ")[0]
    with refusing(f"{place}: a scenario from the page may name no file of this host"):
        understood(ScenarioRequest(text=text, name="mine.yaml"))
    assert watch.opened() == 0


@pytest.mark.parametrize("path", ["/etc/shadow", "/proc/self/environ", "/dev/zero", "/nowhere", "../secret"])
def test_the_page_does_not_tell_whether_a_file_exists(path: str) -> None:
    text = f"name: n\ndut: {{name: 'link:trace={path}'}}\nprofile: {{}}\n"
    with pytest.raises(InputError) as caught:
        understood(ScenarioRequest(text=text, name="mine.yaml"))
    assert str(caught.value).startswith("mine.yaml:2:13: dut.name: a scenario from the page may name no file")


def leaves(kind: type[BaseModel], place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Locations in ``kind`` that take a value, and their annotations; ``[]`` for an item of a list."""
    for name, field in kind.model_fields.items():
        here = (*place, name)
        found = [*inner(field.annotation)]
        for section, listed in found:
            yield from leaves(section, (*here, "[]") if listed else here)
        if not found:
            yield here, field.annotation


def inner(annotation: Any, *, listed: bool = False) -> Iterator[tuple[type[BaseModel], bool]]:
    """The sections in an annotation, and whether they are in a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, listed
    within = listed or typing.get_origin(annotation) in (tuple, list)
    for each in typing.get_args(annotation):
        yield from inner(each, listed=within)


def paths(root: type[Root]) -> Iterator[str]:
    """The keys of ``root`` that are declared to be paths."""

    def takes(annotation: Any) -> bool:
        return annotation is Path or any(map(takes, typing.get_args(annotation)))

    for place, annotation in leaves(root):
        if takes(annotation):
            yield ".".join(part for part in place if part != "[]")


def documents(root: type[Root], text: str) -> Iterator[dict[str, Any]]:
    """Documents with ``text`` at every place that takes a value, in every form that a value may have."""
    forms: list[Callable[[str], Any]] = [
        lambda value: value,
        lambda value: [value],
        lambda value: f"link:trace={value}",
        lambda value: f"file://{value}",
        *(lambda value, word=word: {word: value} for word in READERS),  # type: ignore[misc]
    ]
    for place, _ in leaves(root):
        for form in forms:
            value = form(text)
            for part in reversed(place):
                value = [value] if part == "[]" else {part: value}
            yield value
