"""Libraries: folders, folders behind a web server, and names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from threading import Thread

import pytest

from weirlab.base.errors import InputError
from weirlab.library import ProfileBundle, ProfileLibrary, named
from weirlab.library.places import SHIPPED, VARIABLE, fetch, libraries, model_path, opened
from weirlab.library.published import published_thresholds
from weirlab.library.signature import signature
from weirlab.model import load_devices
from weirlab.testing import queue

from .conftest import make


class QuietHandler(SimpleHTTPRequestHandler):
    """A static folder, without a line on stderr for each request."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


class RedirectHandler(BaseHTTPRequestHandler):
    """Sends whoever asks to a file of this machine."""

    def do_GET(self) -> None:
        """Redirect."""
        self.send_response(302)
        self.send_header("Location", "file:///etc/passwd")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder and its URL."""
    folder = tmp_path / "served"
    folder.mkdir()
    with HTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_folder_and_the_same_folder_behind_a_web_server_have_the_same_profiles(
    served: tuple[Path, str], bundle: ProfileBundle
) -> None:
    folder, url = served
    path = ProfileLibrary(str(folder)).add(bundle)
    there = ProfileLibrary(url).entries()
    assert [entry.bundle.id for entry in there] == [bundle.id]
    assert opened(f"{url}/{path.name}", ()).bundle.members == bundle.members
    with pytest.raises(InputError, match="is read only"):
        ProfileLibrary(url).add(bundle)


def test_of_several_profiles_of_a_name_the_newest_is_meant_and_an_identity_names_another(
    tmp_path: Path, bundle: ProfileBundle
) -> None:
    library = ProfileLibrary(str(tmp_path))
    newer = make("edge", queue.QueueDevice(fixed_ns=2000.0), "2026-11-30T10:00:00+00:00")
    for each in (newer, bundle):
        library.add(each)
    assert named("edge", [library]).bundle.id == newer.id
    assert named(f"edge@{bundle.id[:8]}", [library]).bundle.id == bundle.id
    with pytest.raises(InputError, match="no library has a profile 'edgy'; there are edge"):
        named("edgy", [library])


def test_a_file_under_the_name_of_another_is_refused_and_does_not_hide_the_others(
    tmp_path: Path, bundle: ProfileBundle
) -> None:
    library = ProfileLibrary(str(tmp_path))
    library.add(bundle)
    (tmp_path / "core-0123456789ab.weir-profile").write_bytes(bundle.content())
    with pytest.raises(InputError, match=rf"is refused: it holds {bundle.file_name}"):
        named("core", [library])
    refused: list[InputError] = []
    assert [entry.name for entry in library.entries(refuse=refused.append)] == ["edge"]
    assert len(refused) == 1


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("{", "is no index of a library"),
        ("[]", "is no index of a library"),
        (json.dumps({"bundles": ["../../edge-0123456789ab.weir-profile"]}), "is refused: it lists"),
        (json.dumps({"bundles": ["http://other/edge-0123456789ab.weir-profile"]}), "is refused: it lists"),
        (json.dumps({"bundles": [7]}), "is refused: it lists"),
        (json.dumps({"bundles": ["x"] * 1001}), "is no index of a library"),
        (json.dumps({"bundles": ["gone-0123456789ab.weir-profile"]}), "the server answers 404"),
        (" " * 1_000_001, "it has more than 1,000,000 bytes"),
    ],
)
def test_an_index_that_leads_elsewhere_is_refused(served: tuple[Path, str], index: str, message: str) -> None:
    folder, url = served
    (folder / "index.json").write_text(index)
    with pytest.raises(InputError, match=message):
        ProfileLibrary(url).entries()


def test_a_server_cannot_redirect_to_a_file() -> None:
    with HTTPServer(("127.0.0.1", 0), RedirectHandler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(InputError, match="the server answers 302"):
            fetch(f"http://127.0.0.1:{server.server_port}/x", 1000)
        server.shutdown()
    with pytest.raises(InputError, match="cannot be read"):
        fetch(f"http://127.0.0.1:{server.server_port}/x", 1000)


def test_a_name_stands_for_a_model_file_in_the_store(
    tmp_path: Path, bundle: ProfileBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "more"))
    ProfileLibrary(str(tmp_path / "more")).add(bundle)
    path = model_path(tmp_path / "store", "library:edge")
    assert [device.name for device in load_devices(path)] == ["edge"]
    assert path.is_relative_to(tmp_path / "store")


def test_a_dozen_profiles_come_with_weir_signed_small_and_with_the_machine_they_were_measured_on() -> None:
    shipped = libraries(Path("/nowhere"))[-1].entries()
    assert len(shipped) == len({entry.name for entry in shipped}) == 12
    for entry in shipped:
        assert signature(entry.bundle).signer == "profiles@weirlab"
        assert not entry.bundle.manifest.simulated
        assert "EPYC" in entry.bundle.manifest.host
        assert entry.bundle.device.models.keys() >= {"queueing"}
        assert entry.bundle.trials.height >= 80
        assert not {"host", "command"} & entry.bundle.manifest.conditions.keys()
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) < 1_000_000


def test_devices_of_the_literature_have_the_thresholds_of_their_publications() -> None:
    found = {(each.device, each.rules): each for each in published_thresholds()}
    assert found["eagle40", 400].low_pps == 160_000
    assert (found["eagle40", 0].low_pps, found["eagle40", 0].high_pps) == (580_000, 633_000)
    assert found["openbsd-pf-2006", 0].publication.key == "woernhard-2006"
