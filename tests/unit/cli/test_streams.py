from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from weirlab.base.errors import NobodyReads, OutputError
from weirlab.base.tables import Table
from weirlab.cli.progress import ProgressLines
from weirlab.cli.streams import guarded, tell

from ..conftest import Weir

COMMANDS = (["runs"], ["runs", "--json"], ["--help"], ["--version"])


def started(arguments: list[str], redirections: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """``weir`` by a shell with ``redirections``; what is left of its streams, and its exit code."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirections}', "sh", sys.executable, "-P", "-m", "weirlab", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "WEIR_STORE": str(tmp_path)},
    )


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_reader_that_is_gone_ends_a_command_quietly_as_sigpipe_would(
    arguments: list[str], tmp_path: Path
) -> None:
    gone, out = os.pipe()
    os.close(gone)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "weirlab", *arguments],
        stdout=out,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "WEIR_STORE": str(tmp_path)},
    )
    os.close(out)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["profile", "--lab", "sim"],
        ["capacity", "--lab", "sim", "--json"],
        ["run", "firewall-rules", "--lab", "sim"],
    ],
    ids=" ".join,
)
def test_a_reader_that_goes_ends_a_long_command_which_keeps_its_run(
    arguments: list[str], tmp_path: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "weirlab", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "WEIR_STORE": str(tmp_path)},
    ) as command:
        assert command.stdout is not None
        assert command.stderr is not None
        # It is at work once it says so.
        begun = any("run 2" in line or "Ctrl-C" in line for line in command.stderr)
        command.stdout.close()
        assert (begun, command.wait(timeout=60)) == (True, 141)
        told = command.stderr.read()
    assert "Traceback" not in told
    for manifest in tmp_path.glob("2*/manifest.json"):
        assert json.loads(manifest.read_text())["status"] == "interrupted"
        assert f"in run {manifest.parent.name}; go on with: weir " in told


def test_a_service_outlives_the_reader_of_what_it_said(tmp_path: Path) -> None:
    """As in ``read -r address < <(weir tcp serve --json)``."""
    with subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-m",
            "weirlab",
            "--store",
            str(tmp_path),
            "web",
            "--json",
            "--bind",
            "127.0.0.1:0",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as service:
        assert service.stdout is not None
        url = json.loads(service.stdout.readline())["url"]
        service.stdout.close()
        for _ in range(3):
            with urllib.request.urlopen(f"{url}api/session", timeout=60) as answer:
                assert answer.status == 200
        service.terminate()
        service.wait(timeout=60)


@pytest.mark.parametrize(
    ("redirection", "reason"), [(">&-", "it is closed"), (">/dev/full", "No space left on device")]
)
@pytest.mark.parametrize("arguments", COMMANDS[:2])
def test_a_result_that_cannot_be_written_is_told_in_one_line(
    arguments: list[str], redirection: str, reason: str, tmp_path: Path
) -> None:
    done = started(arguments, redirection, tmp_path)
    assert done.returncode == 8
    assert done.stderr.startswith(f"weir: standard output cannot be written: {reason}; ")
    assert done.stderr.count("\n") == 1


def test_an_error_keeps_its_exit_code_where_its_json_cannot_be_written(tmp_path: Path) -> None:
    done = started(["show", "nope", "--json"], ">&-", tmp_path)
    assert done.returncode == 6
    assert done.stderr.startswith("weir: no run 'nope'")


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_without_standard_error_the_result_is_the_same(redirection: str, tmp_path: Path) -> None:
    done = started(["show", "nope", "--json"], redirection, tmp_path)
    assert done.returncode == 6
    assert json.loads(done.stdout)["error"]["exit_code"] == 6


def test_a_failure_to_write_is_raised_once_and_errors_of_stderr_never(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(sys, "stdout", Broken())
    monkeypatch.setattr(sys, "stderr", Broken())
    with guarded():
        with pytest.raises(NobodyReads):
            tell("result")
        tell("more")
        tell("message", sys.stderr)
    assert isinstance(sys.stdout, Broken)
    assert issubclass(NobodyReads, OutputError)


def test_a_terminal_without_unicode_shows_what_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    with guarded():
        tell("5 µs")
    assert raw.getvalue() == b"5 \\xb5s\n"


def test_a_run_named_with_terminal_escapes_is_listed_harmlessly(weir: Weir, tmp_path: Path) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text(
        'name: "a\\e]0;owned\\ab"\nlab: {kind: sim}\nreport: null\n'
        "profile: {positions: [0, 100], sizes: [64], load_shares: [0.2, 0.5, 0.8, 1.2],"
        " repetitions: 1, trial_s: 0.01, scout_s: 0.01, warmup_s: 0}\n"
    )
    weir("run", scenario)
    for arguments in (["runs"], ["runs", "--json"], ["show", "last"]):
        answer = weir(*arguments)
        assert "owned" in answer.out
        assert "\x1b" not in answer.out
    assert r"a\x1b]0;owned\x07b" in weir("runs").out


def test_a_key_with_terminal_escapes_is_complained_of_harmlessly(weir: Weir, tmp_path: Path) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text('name: x\n"k\\e[31mey": 1\nprofile: {}\n')
    assert r"k\x1b[31mey: unknown key" in weir("run", scenario).err


def test_a_value_of_half_a_megabyte_is_not_echoed_whole(weir: Weir) -> None:
    answer = weir("trial", "--lab", "sim", "--rate", "x" * 500_000)
    assert answer.code == 2
    assert "(500,000 characters)" in answer.err
    assert len(answer.err) < 500


def test_names_that_are_not_utf_8_are_printed_as_their_bytes(weir: Weir) -> None:
    name = os.fsdecode(b"x\xff.yaml")
    assert r"x\xff.yaml: no such file" in weir("run", name).err
    assert weir("show", name, "--json").json["error"]["exit_code"] == 6


def test_progress_and_tables_show_foreign_text_harmlessly() -> None:
    stream = io.StringIO()
    ProgressLines(stream).note("device \x1b[31m")
    assert stream.getvalue() == "weir: device \\x1b[31m\n"
    assert Table("\u202e", ("a",), [("\x9b",)]) == Table("\\u202e", ("a",), [("\\x9b",)])
