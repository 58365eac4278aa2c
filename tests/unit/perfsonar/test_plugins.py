"""The plug-ins as pScheduler calls them: a process per command, JSON on standard input and output."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from weirlab._engine import TcpServer

HERE = Path(__file__).resolve().parents[3] / "integrations" / "perfsonar"
DEADLINE_S = 120.0
TEST = ("enumerate", "cli-to-spec", "spec-to-cli", "spec-is-valid", "spec-format", "participants",
        "limit-is-valid", "limit-passes", "result-format")  # fmt: skip
TOOL = ("enumerate", "can-run", "duration", "participant-data", "run", "merged-results")

SPEC: dict[str, Any] = {
    "schema": 1,
    "source": "192.0.2.1",
    "dest": "192.0.2.2",
    "duration": "PT20S",
    "interval": "PT2S",
    "connections": 4,
    "reverse": True,
    "bandwidth": 100_000_000,
    "congestion": "cubic",
    "block": 65_536,
    "buffer": 262_144,
}
RESULT: dict[str, Any] = {
    "schema": 1,
    "succeeded": True,
    "throughput-bits": 93_500_000.0,
    "received-bytes": 11_687_500,
    "seconds": 1.0,
    "retransmits": 3,
    "rtt-us": {"min": 100.0, "mean": 150.0, "max": 900.0},
    "intervals": [{"start-s": 0.0, "throughput-bits": 93_500_000.0, "retransmits": 3, "rtt-us": 150.0}],
    "diagnosis": [{"connection": 0, "sentence": "81 % of the time <nothing> was written.", "causes": []}],
}


def called(
    command: str, given: Any = None, *arguments: str, conf: Path | None = None
) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of ``test/...`` or ``tool/...``."""
    done = subprocess.run(
        [sys.executable, str(HERE / command), *arguments],
        input="" if given is None else json.dumps(given),
        env=os.environ | ({"WEIRTCP_CONF": str(conf)} if conf else {}),
        capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def answer(command: str, given: Any = None, *arguments: str, conf: Path | None = None) -> Any:
    code, out, err = called(command, given, *arguments, conf=conf)
    assert code == 0, err
    return json.loads(out)


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A configuration that names this environment's ``weir``, and a port that is free."""
    # Below the ports that the system hands out (ip_local_port_range): no other test gets it.
    for port in range(20_000 + os.getpid() % 1000 * 10, 32_000):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            break
    path = tmp_path / "weirtcp.conf"
    path.write_text(f"[weirtcp]\nweir = {Path(sys.executable).parent / 'weir'}\nport = {port}\nsetup = 60\n")
    return path


@pytest.fixture
def port() -> Iterator[int]:
    """Of a host that runs ``weir tcp serve`` with the token ``open sesame, open``."""
    server = TcpServer(
        address="127.0.0.1",
        port=0,
        token="open sesame, open",
        most_ns=None,
        most_bytes=None,
        most_clients=2,
        options=[],
    )
    yield server.address[1]
    server.stop()


def test_every_command_that_pscheduler_calls_is_there_and_executable() -> None:
    for folder, commands in (("test", TEST), ("tool", TOOL)):
        assert sorted(path.name for path in (HERE / folder).iterdir()) == sorted(commands)
        assert all(os.access(HERE / folder / name, os.X_OK) for name in commands)


def test_test_and_tool_enumerate_themselves() -> None:
    test, tool = answer("test/enumerate"), answer("tool/enumerate")
    assert (test["schema"], test["name"], test["scheduling-class"]) == (1, "weirtcp", "exclusive")
    assert tool["tests"] == [test["name"]]


def test_options_become_a_spec_and_a_spec_options() -> None:
    options = answer("test/spec-to-cli", SPEC)
    assert answer("test/cli-to-spec", options) == SPEC
    options = ["-d", "h", "-b", "1.5G", "--block", "64K", "--single-ended", "--token", "t"]
    assert answer("test/cli-to-spec", None, *options) == {
        "schema": 1,
        "dest": "h",
        "bandwidth": 1_500_000_000,
        "block": 65_536,
        "single-ended": True,
        "_token": "t",
    }
    code, _, err = called("test/cli-to-spec", ["--fast"])
    assert code == 1
    assert "--fast" in err


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, ""),
        ({"dest": None}, "dest"),
        ({"dest": "a; rm -rf"}, "dest"),
        ({"connections": 1000}, "connections"),
        ({"duration": "10"}, "duration"),
        ({"duration": "PT2H"}, "duration: 0.1 s to 1 h"),
        ({"interval": "PT30S"}, "interval"),
        ({"congestion": "a b"}, "congestion"),
        ({"block": 23}, "block"),
        ({"buffer": "64K"}, "buffer"),
        ({"command": "id"}, "command"),
        ({"_token": "t"}, "single-ended"),
    ],
)
def test_what_no_spec_may_say_is_found(
    change: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(HERE))
    checking = importlib.import_module("weirtcp.checking")
    told = checking.problem("spec", SPEC | change)
    assert bool(told) is bool(why)
    assert why in told


def test_a_spec_is_valid_or_the_reason_is_told() -> None:
    assert answer("test/spec-is-valid", SPEC) == {"valid": True}
    told = answer("test/spec-is-valid", SPEC | {"connections": 1000})
    assert told["valid"] is False
    assert "connections: 1000" in told["error"]


def test_participants_are_source_and_destination() -> None:
    assert answer("test/participants", SPEC) == {"participants": ["192.0.2.1", "192.0.2.2"]}
    told = answer("test/participants", {"dest": "b", "dest-node": "b.example", "single-ended": True})
    assert told == {"participants": [None], "null-reason": "No source specified"}


LIMIT: dict[str, Any] = {
    "duration": {"range": {"lower": "PT5S", "upper": "PT60S"}},
    "bandwidth": {"range": {"lower": 0, "upper": 200_000_000}},
    "reverse": {"match": False, "fail-message": "only from here"},
}


def test_limits_pass_what_is_within_and_say_what_is_not() -> None:
    assert answer("test/limit-is-valid", LIMIT) == {"valid": True}
    assert answer("test/limit-is-valid", {"speed": 1})["valid"] is False
    within = {key: value for key, value in SPEC.items() if key != "reverse"}
    assert answer("test/limit-passes", {"spec": within, "limit": LIMIT}) == {"passes": True}
    greedy = {"dest": "b", "duration": "PT2M", "reverse": True}
    told = answer("test/limit-passes", {"spec": greedy, "limit": LIMIT})
    assert told["passes"] is False
    assert told["errors"] == [
        "duration PT2M is not allowed here",
        "bandwidth without a bound is not allowed here",
        "only from here",
    ]
    assert called("test/limit-passes", {"spec": greedy})[0] == 1


def test_specs_and_results_are_shown_as_text_and_as_html() -> None:
    code, text, _ = called("test/spec-format", SPEC)
    assert code == 0
    assert "At most .............. 100 Mbit/s" in text
    secret = {"dest": "b", "single-ended": True, "_token": "hidden"}
    assert "hidden" not in called("test/spec-format", secret)[1]
    _, text, _ = called("test/result-format", {"spec": SPEC, "result": RESULT})
    assert "Why not faster .............. 81 % of the time <nothing> was written." in text
    assert "93.5 Mbit/s" in text.splitlines()[-1]
    _, html, _ = called("test/result-format", {"spec": SPEC, "result": RESULT}, "text/html")
    assert html.startswith("<table>")
    assert "&lt;nothing&gt;" in html
    failed = {"result": {"succeeded": False, "error": "nobody answers"}}
    assert "nobody answers" in called("test/result-format", failed)[1]
    assert called("test/result-format", failed, "text/xml")[0] == 1


def test_the_tool_says_whether_it_can_run(conf: Path) -> None:
    test = {"type": "weirtcp", "spec": SPEC}
    assert answer("tool/can-run", test, conf=conf) == {"can-run": True}
    assert answer("tool/can-run", {**test, "type": "throughput"}, conf=conf)["can-run"] is False
    conf.write_text("[weirtcp]\nweir = /nowhere/weir\n")
    told = answer("tool/can-run", test, conf=conf)
    assert "/nowhere/weir cannot be executed" in told["reasons"][0]


def test_a_run_lasts_longer_than_its_data() -> None:
    for given in ({"type": "weirtcp", "spec": SPEC}, SPEC):
        assert answer("tool/duration", given) == {"duration": "PT35S"}


def test_the_destination_tells_its_port_and_a_fresh_token(conf: Path) -> None:
    given = {"test": {"type": "weirtcp", "spec": SPEC}}
    assert answer("tool/participant-data", {**given, "participant": 0}, conf=conf) == {}
    one, other = (answer("tool/participant-data", {**given, "participant": 1}, conf=conf) for _ in "ab")
    assert one["port"] == other["port"]
    assert one["_token"] != other["_token"]
    assert called("tool/participant-data", {**given, "participant": 2}, conf=conf)[0] == 1


def checked(result: dict[str, Any]) -> dict[str, Any]:
    schema = json.loads((HERE / "schema" / "result.json").read_text())
    assert list(Draft7Validator(schema).iter_errors(result)) == []
    return result


def test_source_and_destination_measure_together(conf: Path) -> None:
    spec = {"dest": "127.0.0.1", "duration": "PT0.5S", "interval": "PT0.1S", "connections": 2,
            "block": 8192, "buffer": 65_536}  # fmt: skip
    test = {"type": "weirtcp", "spec": spec}
    data = [answer("tool/participant-data", {"participant": n, "test": test}, conf=conf) for n in (0, 1)]
    given = {"participant-data": data, "test": test}
    with subprocess.Popen(
        [sys.executable, str(HERE / "tool" / "run")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"WEIRTCP_CONF": str(conf)},
    ) as destination:
        assert destination.stdin is not None
        destination.stdin.write(json.dumps({**given, "participant": 1}))
        destination.stdin.close()
        destination.stdin = None
        measured = answer("tool/run", {**given, "participant": 0}, conf=conf)
        served = json.loads(destination.communicate(timeout=DEADLINE_S)[0])
    assert served["succeeded"], served
    assert "--option SO_SNDBUF=65536" in measured["diags"]
    assert "--option SO_RCVBUF=65536" in served["diags"]
    merged = checked(answer("tool/merged-results", {"test": test, "results": [measured, served]}))
    assert merged["succeeded"], merged
    assert merged["received-bytes"] > 0
    assert merged["throughput-bits"] == pytest.approx(merged["received-bytes"] * 8 / merged["seconds"])
    assert len(merged["intervals"]) >= 5
    assert {each["connection"] for each in merged["diagnosis"]} <= {0, 1}
    assert data[1]["_token"] not in json.dumps(merged)
    assert "bit/s" in called("test/result-format", {"spec": spec, "result": merged})[1]


def test_a_destination_without_pscheduler_needs_its_token(conf: Path, port: int) -> None:
    spec = {
        "dest": "127.0.0.1", "duration": "PT0.2S", "interval": "PT0.1S", "reverse": True,
        "single-ended": True, "single-ended-port": port, "_token": "open sesame, open",
    }  # fmt: skip
    given = {"participant": 0, "participant-data": [{}], "test": {"type": "weirtcp", "spec": spec}}
    assert checked(answer("tool/run", given, conf=conf))["succeeded"]
    spec["_token"] = "guessed"
    refused = checked(answer("tool/run", given, conf=conf))
    assert refused["succeeded"] is False
    assert "token" in refused["error"]
    assert "guessed" not in json.dumps(refused)


def test_a_source_that_failed_is_what_counts_and_all_reasons_are_told() -> None:
    failed = {"succeeded": False, "error": "nobody answers", "diags": "weir tcp measure"}
    merged = checked(answer("tool/merged-results", {"test": {}, "results": [failed, None]}))
    assert merged["error"] == "Participant 0: nobody answers; Participant 1: no result"
    assert "weir tcp measure" in merged["diags"]
    merged = checked(answer("tool/merged-results", {"test": {}, "results": [RESULT, None]}))
    assert merged["succeeded"]
    assert "Participant 1: no result" in merged["diags"]


def test_what_is_no_json_fails_with_a_message() -> None:
    for command in ("test/spec-is-valid", "tool/run"):
        code, _, err = called(command)
        assert code == 1
        assert "not JSON" in err


def test_the_installed_tree_works_by_itself(tmp_path: Path) -> None:
    subprocess.run(["make", "-s", "-C", str(HERE), "install", f"DESTDIR={tmp_path}"], check=True)
    classes = tmp_path / "usr/libexec/pscheduler/classes"
    done = subprocess.run(
        [sys.executable, str(classes / "test/weirtcp/spec-is-valid")],
        input=json.dumps(SPEC), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == {"valid": True}
    assert (tmp_path / "etc/pscheduler/tool/weirtcp.conf").exists()
    assert sorted(path.name for path in (classes / "tool/weirtcp").iterdir()) == sorted([*TOOL, "weirtcp"])
