"""Transfers between two servers that a third host asks for; here all three are on loopback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from weirlab.base.errors import InputError
from weirlab.studies import scenarios
from weirlab.transfers.tcp import ends
from weirlab.transfers.tcp.show import tables

from ...conftest import Answer, Weir
from .conftest import Served

Serve = Callable[..., Served]
BYTES = 5_000_000


@pytest.fixture
def between(weir: Weir, serve: Serve) -> Callable[..., Answer]:
    """Runs a command about a transfer from one server to another one."""
    server, client = serve(token="a token of tests"), serve(token="Zq7-the-far-host", errands=True)

    def run(
        command: str,
        *options: object,
        token: str = "a token of tests",
        client_token: str = "Zq7-the-far-host",
    ) -> Answer:
        return weir(
            *("tcp", command, "127.0.0.1", "--port", server.port, "--token", token, "--bytes", "5MB"),
            *("--client", "127.0.0.1", "--client-port", client.port, "--client-token", client_token),
            *options,
        )

    return run


@pytest.mark.parametrize("ways", [(), ("--reverse",)], ids=str)
def test_a_third_host_is_told_the_result(between: Callable[..., Answer], ways: tuple[str, ...]) -> None:
    answer = between("send", "--json", *ways)
    assert answer.code == 0, answer.err
    *_, result = answer.lines
    (direction,) = result["directions"]
    assert (direction["direction"], direction["received_bytes"]) == ("down" if ways else "up", BYTES)
    assert direction["rtt_us"] is not None


def test_both_ends_are_on_one_axis_and_the_run_is_kept(
    between: Callable[..., Answer], tmp_path: Path
) -> None:
    answer = between("measure", "--json", "--every", "1ms", "--rate", "100Mbit/s", "--store", tmp_path)
    assert answer.code == 0, answer.err
    document = answer.json
    assert document["captures"].keys() == {"client", "server"}
    for end in document["captures"].values():
        assert end["why_not"].endswith("that needs weir tcp serve --allow-capture"), end
    assert {"sender.throughput_bps", "receiver.throughput_bps"} <= set(document["axis"][0])
    assert len(document["diagnoses"]) == 1
    for path in Path(document["path"]).rglob("*"):
        assert path.is_dir() or b"Zq7-the-far-host" not in path.read_bytes(), path


def test_a_wrong_token_of_either_is_told(between: Callable[..., Answer]) -> None:
    refused = between("send", token="two")
    assert (refused.code, "says: the server refuses: the token is wrong" in refused.err) == (5, True), (
        refused.err
    )
    refused = between("send", client_token="none")
    assert (refused.code, "which is to be the client, says: the token is wrong" in refused.err) == (5, True)
    refused = between("send", client_token="")
    assert (refused.code, "--client-token" in refused.err) == (2, True), refused.err


def test_the_far_client_says_with_whom_it_sends_and_which_way(weir: Weir, serve: Serve) -> None:
    server, client = serve(token="a token of tests"), serve(token="Zq7-the-far-host", errands=True)
    answer = weir(
        *("tcp", "send", "127.0.0.1", "--port", server.port, "--token", "a token of tests", "--bytes", "1MB"),
        *("--client", "127.0.0.1", "--client-port", client.port, "--client-token", "Zq7-the-far-host"),
    )
    assert answer.code == 0, answer.err
    far, near = (tables.server_event(each.wait_for("began")) for each in (client, server))
    assert far.endswith(f"with 127.0.0.1 port {server.port} begins, connections: 1 from here")
    assert near.endswith("begins, connections: 1 to here")


@pytest.mark.parametrize(
    "options", [("--option", "TCP_NODELAY=1"), ("--bind", "127.0.0.1"), ("--local-port", "4000")], ids=str
)
def test_sockets_of_this_host_cannot_be_set(weir: Weir, options: tuple[str, str]) -> None:
    answer = weir("tcp", "send", "localhost", "--client", "localhost", *options)
    assert answer.code == 2
    assert f"{options[0]} is about sockets of this host" in answer.err


def test_who_may_have_a_server_send_must_know_a_token(weir: Weir) -> None:
    answer = weir("tcp", "serve", "--port", "0", "--allow-client")
    assert answer.code == 2
    assert "must know a token; give one with --token" in answer.err
    assert not ends.ServerSettings().errands


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{host: a, client: b, options: {TCP_NODELAY: 1}}", "with 'client' it has none"),
        ("{host: a, client: b, capture: eth0}", "write between:INTERFACE"),
        ("{path: {}, capture: 'between:eth0'}", "with 'path' names no interface"),
        ("{path: {}, client: b}", "excludes 'path'"),
    ],
)
def test_a_scenario_that_cannot_be_is_refused(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        scenarios.loads(f"name: x\ntcp: {text}\n")
