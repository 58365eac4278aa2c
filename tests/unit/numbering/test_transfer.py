"""Zones imported from their servers, by transfer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset
import dns.zone
import pytest

from weirlab.base.errors import InputError
from weirlab.numbering.zones import written, zones

from .conftest import Voice
from .plans import network


@pytest.fixture
def server() -> Iterator[Callable[[list[bytes]], str]]:
    """A name server for one transfer over TCP: address and port where it gives away these messages."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threads: list[threading.Thread] = []

        def serve(messages: list[bytes]) -> str:
            def answer() -> None:
                with listener.accept()[0] as peer:
                    asked = peer.recv(1 << 12)
                    for message in messages:
                        # With the number of the question.
                        told = asked[2:4] + message[2:]
                        peer.sendall(len(told).to_bytes(2) + told)

            threads.append(threading.Thread(target=answer))
            threads[-1].start()
            return f"127.0.0.1:{listener.getsockname()[1]}"

        yield serve
        for thread in threads:
            thread.join()


def transfer(text: str, origin: str) -> list[bytes]:
    """A zone as the messages of a transfer (RFC 5936, 2.2): the SOA ends it, too."""
    name = dns.name.from_text(origin)
    zone = dns.zone.from_text(text, relativize=False)
    soa = zone.find_rrset(name, "SOA")
    others = [
        dns.rrset.from_rdata_list(node, rdataset.ttl, rdataset)
        for node, rdataset in zone.iterate_rdatasets()
        if rdataset.rdtype != dns.rdatatype.SOA
    ]
    return [message(name, [soa, *others]), message(name, [soa])]


def message(name: dns.name.Name, answer: list[dns.rrset.RRset], rcode: int = 0) -> bytes:
    made = dns.message.make_response(dns.message.make_query(name, "AXFR"))
    made.set_rcode(dns.rcode.Rcode(rcode))
    made.answer = answer
    return made.to_wire()


def test_a_zone_is_imported_by_transfer_as_from_its_file(
    voice: Voice, tmp_path: Path, server: Callable[[list[bytes]], str]
) -> None:
    (text,) = [written(zone) for zone in zones(network()) if zone.origin == "0.2.4.e164.arpa"]
    file = tmp_path / "public.zone"
    file.write_text(text)
    where = server(transfer(text, "0.2.4.e164.arpa"))
    arguments = ("--tree", "public", "--json")
    by_transfer = voice("import", "0.2.4.e164.arpa", "--server", where, *arguments)
    assert by_transfer.code == 0, by_transfer.err
    assert by_transfer.json["entries"] == 2
    assert by_transfer.json["text"] == voice("import", file, *arguments).json["text"]


def test_a_server_that_refuses_the_transfer_is_told(
    voice: Voice, server: Callable[[list[bytes]], str]
) -> None:
    where = server([message(dns.name.from_text("0.2.4.e164.arpa"), [], dns.rcode.REFUSED)])
    answer = voice("import", "0.2.4.e164.arpa", "--server", where, "--tree", "public")
    assert answer.code == InputError.exit_code
    assert "0.2.4.e164.arpa at 127.0.0.1, port" in answer.err
    assert "REFUSED; the server must have the zone and allow this host to transfer it" in answer.err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--server", "ns.example.net"), "'ns.example.net' is not an address"),
        (("--server", "127.0.0.1:0"), "is not an address"),
        (("--server", "127.0.0.1", "--origin", "e164.arpa"), "--origin is for zone files"),
    ],
)
def test_a_transfer_that_cannot_be_asked_for_is_refused(
    voice: Voice, arguments: tuple[str, ...], reason: str
) -> None:
    answer = voice("import", "e164.arpa", "--tree", "public", *arguments)
    assert answer.code == 2
    assert reason in answer.err
