from __future__ import annotations

import pytest

from weirlab.base.errors import InputError
from weirlab.lab.remote.target import SshAddress, parse_address


@pytest.mark.parametrize(
    ("text", "address", "arguments"),
    [
        ("ssh://fw1", SshAddress("fw1"), ["--", "fw1"]),
        (
            "ssh://root@fw-1.example/",
            SshAddress("fw-1.example", "root"),
            ["-l", "root", "--", "fw-1.example"],
        ),
        ("ssh://192.0.2.1:2222", SshAddress("192.0.2.1", "", 2222), ["-p", "2222", "--", "192.0.2.1"]),
        (
            "ssh://admin@[2001:db8::1]:22",
            SshAddress("2001:db8::1", "admin", 22),
            ["-l", "admin", "-p", "22", "--", "2001:db8::1"],
        ),
    ],
)
def test_an_address_gives_the_arguments_of_ssh(text: str, address: SshAddress, arguments: list[str]) -> None:
    assert parse_address(text) == address
    assert address.arguments == arguments
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    "text",
    [
        "fw1", "root@fw1", "http://fw1", "ssh://", "ssh://-oProxyCommand=id", "ssh://-x@fw1", "ssh://a b", "ssh://fw1:0",
        "ssh://fw1:65536", "ssh://fw1/etc", "ssh://fw1;id", "ssh://$(id)@fw1", "ssh://[fw1]", "ssh://fw1\n",
    ],
)  # fmt: skip
def test_what_is_no_login_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is no login: write ssh://user@host"):
        parse_address(text)


def test_a_password_in_an_address_is_refused_with_what_to_do() -> None:
    with pytest.raises(InputError, match="passwords are not possible: ssh-copy-id"):
        parse_address("ssh://root:secret@fw1")
