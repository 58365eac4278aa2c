"""``weir library``, and library:NAME where other commands take a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weirlab.library import ProfileBundle, ProfileLibrary
from weirlab.library.bundle import MODEL
from weirlab.testing import queue

from ...conftest import Weir
from ...library.conftest import make

CALLS = ("--calls", "300", "--rules", "100", "--extrapolate", "--certainty", "50%")


@pytest.fixture(scope="module")
def fast() -> ProfileBundle:
    """A device twice as fast as the other."""
    return make("fast", queue.QueueDevice(fixed_ns=400.0))


@pytest.fixture
def place(tmp_path: Path, fast: ProfileBundle) -> Path:
    """A library of two devices."""
    library = ProfileLibrary(str(tmp_path / "place"))
    for each in (fast, make("slow", queue.QueueDevice(fixed_ns=4000.0))):
        library.add(each)
    return tmp_path / "place"


def test_list_and_show_say_what_was_measured_where(weir: Weir, place: Path) -> None:
    listed = weir("library", "list", "--library", str(place), "--json")
    assert listed.code == 0
    found = {one["name"]: one for one in json.loads(listed.out)["profiles"]}
    assert (found["fast"]["host"], found["fast"]["kind"]) == ("a fake", "measured")
    assert {one["device"] for one in json.loads(listed.out)["published"]} == {"eagle40", "openbsd-pf-2006"}
    shown = weir("library", "show", "fast", "--library", str(place))
    assert shown.code == 0
    assert "Forwarding rate in overload" in shown.out
    assert "CC0-1.0" in shown.out


def test_a_profile_is_added_from_a_run_and_other_commands_take_its_name(
    weir: Weir, finished: str, tmp_path: Path
) -> None:
    assert "a bundle ends in .weir-profile" in weir("library", "add", Path(__file__)).err
    refused = weir("library", "add", finished)
    assert refused.code == 2
    assert "--name edge --licence CC0-1.0" in refused.err
    wrong = weir("library", "add", finished, "--name", "edge", "--licence", "as you like")
    assert (wrong.code, "not an SPDX expression" in wrong.err, "LicenseRef-" in wrong.err) == (2, True, True)
    added = weir("library", "add", finished, "--name", "edge", "--licence", "cc0-1.0", "--json")
    assert added.code == 0, added.err
    assert Path(json.loads(added.out)["path"]).is_file()
    assert "CC0-1.0" in weir("library", "show", "edge").out
    verified = weir("library", "verify", "edge", "--json")
    assert json.loads(verified.out)["refit_error_ratio"] < 0.01
    own, named = (
        weir("plan", source, "--rules", "50", "--certainty", "50%", "--require", "p99<1ms", "--json")
        for source in (finished, "library:edge")
    )
    assert (own.code, named.code) == (0, 0)
    answers = [json.loads(one.out)["answers"][0] for one in (own, named)]
    assert answers[1].pop("device") == "edge"
    assert answers[0].pop("device") == "fake"
    assert answers[0] == answers[1]
    trial = weir("trial", "--as", "library:edge", "--rate", "100kpps", "--duration", "0.05", "--json")
    assert trial.code == 0, trial.err
    exported = weir("export", "library:edge", "--to", "ns3", "--out", str(tmp_path / "ns3"))
    assert exported.code == 0


def test_devices_are_ranked_on_a_page_that_says_where_they_come_from(
    weir: Weir, place: Path, tmp_path: Path
) -> None:
    page = tmp_path / "rank.html"
    found = weir(
        "library", "compare", "slow", "fast", *CALLS, "--library", str(place), "--out", str(page), "--json"
    )
    assert found.code == 0, found.err
    rows = [row for row in json.loads(found.out)["rows"] if row["factor"] == 1]
    assert [row["device"] for row in rows] == ["fast", "slow"]
    assert json.loads(found.out)["best"] == "fast"
    text = page.read_text()
    assert "Where each profile was measured" in text
    assert "woernhard-2006" in text


def test_a_tampered_bundle_is_refused_by_every_command(weir: Weir, place: Path, fast: ProfileBundle) -> None:
    forged = ProfileBundle(fast.manifest, {**fast.members, MODEL: fast.members[MODEL].replace(b"1", b"2")})
    (place / fast.file_name).write_bytes(forged.content())
    for words in (("show", "fast"), ("verify", "fast"), ("add", "fast"), ("compare", *CALLS)):
        answer = weir("library", *words, "--library", str(place))
        assert answer.code == 2
        assert "model.json is not the one that the manifest names" in answer.err
    listed = weir("library", "list", "--library", str(place), "--json")
    assert listed.code == 2
    assert "slow" in listed.out


def test_a_list_of_signers_decides_and_a_place_must_exist(weir: Weir, place: Path, tmp_path: Path) -> None:
    (tmp_path / "signers").write_text("")
    unsigned = weir(
        "library", "verify", "fast", "--library", str(place), "--signers", str(tmp_path / "signers")
    )
    assert unsigned.code == 9
    assert "nobody in" in unsigned.err
    assert weir("library", "list", "--library", str(tmp_path / "none")).code == 2
    given = weir("library", "add", "fast", "--library", str(place), "--name", "x")
    assert given.code == 2
    assert "--name is for a run" in given.err
    unknown = weir("plan", "library:none", "--rules", "0", "--rate", "1kpps", "--require", "p99<1ms")
    assert unknown.code == 2
    assert "no library has a profile 'none'" in unknown.err


def test_half_an_address_is_no_library_and_no_profile(weir: Weir) -> None:
    for arguments in (("list", "--library", "http://[::1"), ("show", "http://[::1")):
        refused = weir("library", *arguments)
        # Read as a path, which has no double slash.
        assert (refused.code, "[::1: n" in refused.err) == (2, True)


def test_devices_that_lack_the_same_trials_are_named_in_one_sentence(weir: Weir) -> None:
    answer = weir("library", "compare", "nftables", "esp", "forward", "--calls", "300", "--rules", "100")
    assert answer.code == 0
    assert "esp and forward were not profiled for this: matching position 100" in " ".join(answer.out.split())
