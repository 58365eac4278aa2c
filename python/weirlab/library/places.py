"""Where bundles are: those that come with Weir, the user's own, and folders behind a web server."""

from __future__ import annotations

import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Final
from urllib.parse import urljoin, urlsplit

from weirlab.base import files
from weirlab.base.documents import plain
from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.library.bundle import MOST_BUNDLE_BYTES, SUFFIX, ProfileBundle, read_bundle
from weirlab.model import save_devices

SHIPPED: Final = Path(__file__).with_name("profiles")
OWN: Final = "library"
"""The user's own, in the folder of the store."""
VARIABLE: Final = "WEIR_LIBRARY"
"""The environment variable that names one more: a folder or a URL."""
INDEX: Final = "index.json"
"""The names of all bundles of a folder, for whoever reads it through a web server."""
PREFIX: Final = "library:"
"""How commands that take models name a profile."""

_FILE: Final = re.compile(rf"[a-z0-9][a-z0-9.+-]{{0,63}}-[0-9a-f]{{12}}{re.escape(SUFFIX)}")
_MOST_INDEX_BYTES: Final = 1_000_000
_MOST_BUNDLES: Final = 1000
_TIMEOUT_S: Final = 20
_LONGEST_S: Final = 120


@dataclass(frozen=True)
class LibraryEntry:
    """A bundle in a library."""

    place: str
    bundle: ProfileBundle

    @property
    def name(self) -> str:
        return self.bundle.manifest.name


@dataclass(frozen=True)
class ProfileLibrary:
    """A folder of bundles; ``where`` is its path or its URL."""

    where: str
    title: str = ""
    """What tables call it; empty: ``where``."""

    def entries(
        self, name: str = "", refuse: Callable[[InputError], object] | None = None
    ) -> list[LibraryEntry]:
        """All bundles, or those called ``name``, by name, newest measurement first.

        Raises
        ------
        InputError
            The library cannot be read; or a bundle in it is refused, unless ``refuse`` takes the error.
        """
        found = []
        for file in self.names():
            if not name or name == name_in(file):
                try:
                    found.append(LibraryEntry(self.title or self.where, self._read(file)))
                except InputError as error:
                    if refuse is None:
                        raise
                    refuse(error)
        newest = sorted(found, key=lambda entry: entry.bundle.manifest.measured, reverse=True)
        return sorted(newest, key=lambda entry: entry.name)

    def _read(self, file: str) -> ProfileBundle:
        if is_url(self.where):
            content = fetch(urljoin(f"{self.where.rstrip('/')}/", file), MOST_BUNDLE_BYTES)
        else:
            content = files.read_bytes(Path(self.where) / file, "a bundle", MOST_BUNDLE_BYTES)
        bundle = read_bundle(content, f"{self.where}/{file}")
        if bundle.file_name != file:
            raise InputError(
                f"{self.where}/{file} is refused: it holds {bundle.file_name}; ask for the bundle again"
            )
        return bundle

    def add(self, bundle: ProfileBundle) -> Path:
        """Keep ``bundle`` and renew the index; raises ``StoreError``. A URL is read only."""
        if is_url(self.where):
            raise InputError(f"{self.where} is read only: add to a folder, and copy that to the web server")
        folder = Path(self.where)
        files.make_folder(folder)
        path = folder / bundle.file_name
        files.write_bytes(path, bundle.content())
        index = {"format": "weir-library", "version": 1, "bundles": self.names()}
        files.write_bytes(folder / INDEX, (json.dumps(plain(index), indent=1) + "\n").encode())
        return path

    def names(self) -> list[str]:
        """The files of all bundles; raises ``InputError`` if the library cannot be read."""
        if not is_url(self.where):
            try:
                found = sorted(os.listdir(self.where))
            except FileNotFoundError:
                return []
            except OSError as error:
                raise InputError(f"library {self.where} cannot be read: {error.strerror}") from error
            return [name for name in found if _FILE.fullmatch(name)]
        content = fetch(urljoin(f"{self.where.rstrip('/')}/", INDEX), _MOST_INDEX_BYTES)
        try:
            names = json.loads(content)["bundles"]
            if not isinstance(names, list) or len(names) > _MOST_BUNDLES:
                raise ValueError
            if wrong := [name for name in names if not isinstance(name, str) or not _FILE.fullmatch(name)]:
                raise InputError(f"library {self.where} is refused: it lists {quoted(wrong[0])}")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(
                f"{self.where}/{INDEX} is no index of a library: 'weir library add --to FOLDER' writes one"
            ) from error
        return sorted(names)


def name_in(file: str) -> str:
    """The name of the profile in the name of a bundle's file."""
    return file.removesuffix(SUFFIX).rpartition("-")[0]


def is_url(where: str) -> bool:
    """Whether ``where`` is the URL of a web server."""
    try:
        return urlsplit(where).scheme in ("http", "https")
    except ValueError:
        # Half an IPv6 address.
        return False


def libraries(root: Path) -> tuple[ProfileLibrary, ...]:
    """The libraries in which names are looked up: the user's own in the store ``root``, another, Weir's."""
    other = os.environ.get(VARIABLE, "")
    return (
        ProfileLibrary(str(root / OWN), "own"),
        *((ProfileLibrary(other),) if other else ()),
        ProfileLibrary(str(SHIPPED), "Weir"),
    )


def named(name: str, places: Iterable[ProfileLibrary]) -> LibraryEntry:
    """The newest bundle called ``name`` in the first library that has one; ``NAME@ID`` has that identity.

    Raises
    ------
    InputError
        There is none, or a library cannot be read.
    """
    wanted, _, identity = name.partition("@")
    known: list[str] = []
    for place in places:
        for entry in place.entries(wanted):
            if entry.bundle.id.startswith(identity):
                return entry
        known += map(name_in, place.names())
    listed = ", ".join(dict.fromkeys(known)) or "none"
    raise InputError(f"no library has a profile {quoted(name)}; there are {listed}")


def model_path(root: Path, name: str) -> Path:
    """The model file of the profile ``name``, kept beside the user's own library in the store ``root``.

    Raises
    ------
    InputError, ModelError
        There is none, or it cannot be used.
    StoreError
        It cannot be written.
    """
    entry = named(name.removeprefix(PREFIX), libraries(root))
    path = root / OWN / "models" / f"{entry.bundle.file_name.removesuffix(SUFFIX)}.model.json"
    if not path.is_file():
        files.make_folder(path.parent)
        save_devices([entry.bundle.device], path)
    return path


def opened(source: str, places: Sequence[ProfileLibrary]) -> LibraryEntry:
    """The bundle ``source``: a file, a URL, or a name in one of ``places``; raises ``InputError``."""
    if is_url(source):
        return LibraryEntry(source, read_bundle(fetch(source, MOST_BUNDLE_BYTES), source))
    if source.endswith(SUFFIX) or "/" in source:
        content = files.read_bytes(Path(source), "a bundle", MOST_BUNDLE_BYTES)
        return LibraryEntry(source, read_bundle(content, source))
    return named(source.removeprefix(PREFIX), places)


def fetch(url: str, limit: int) -> bytes:
    """What a web server has at ``url``.

    Raises
    ------
    InputError
        It does not answer, answers with an error, too slowly, or with more than ``limit`` bytes.
    """
    # Without handlers for files and FTP: a server may redirect to neither.
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler, urllib.request.HTTPHandler, urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler, urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPErrorProcessor,
    ):  # fmt: skip
        opener.add_handler(handler())
    until = time.monotonic() + _LONGEST_S
    content = b""
    try:
        answer = opener.open(url, timeout=_TIMEOUT_S)
        if answer is None:
            raise InputError(f"{url} leads to an address that is neither http nor https")
        with answer:
            while part := answer.read1(65_536):
                content += part
                if len(content) > limit:
                    raise InputError(f"{url} is refused: it has more than {limit:,} bytes")
                if time.monotonic() > until:
                    raise InputError(
                        f"{url} took more than {_LONGEST_S} s; try again, or copy the file yourself"
                    )
    except urllib.error.HTTPError as error:
        raise InputError(f"{url}: the server answers {error.code} {error.reason}") from error
    except (urllib.error.URLError, HTTPException, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise InputError(
            f"{url} cannot be read: {reason}; check the address, or copy the file yourself"
        ) from error
    return content
