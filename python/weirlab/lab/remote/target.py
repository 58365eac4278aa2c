"""Where the commands of a device run, and the addresses of such targets: ``ssh://user@host:port``."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from weirlab.base.errors import InputError, LabError
from weirlab.base.quoting import quoted

Output = subprocess.CompletedProcess[str]


class UnreachableTarget(LabError):
    """A target cannot be reached, or no longer."""


class Target(Protocol):
    """A place where commands run, with the rights to change its rules."""

    @property
    def name(self) -> str:
        """For messages."""

    def run(self, argv: Sequence[str], stdin: str = "") -> Output:
        """Run a command to its end, in the C locale; a failure of the command itself shows in ``returncode``.

        Raises ``UnreachableTarget`` if the target does not answer, with the reason and what to do;
        ``MissingCapability`` if Weir lacks the rights there.
        """

    def check_login(self) -> None:
        """Raise ``UnreachableTarget`` if nobody could log in now. What is open already does not count."""

    def client(self) -> str:
        """The address that the login comes from, as the target sees it; empty if there is none."""

    def close(self) -> None:
        """End what was opened; may be called twice."""


# None of them can begin with a hyphen: ssh would take it for an option.
_URL: Final = re.compile(
    r"ssh://(?:(?P<user>[A-Za-z0-9_][\w.$-]*)@)?"
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<name>[A-Za-z0-9_][\w.-]*))(?::(?P<port>\d{1,5}))?/?",
    re.ASCII,
)
_HIGHEST_PORT: Final = 65535


@dataclass(frozen=True)
class SshAddress:
    """A login; what is empty or 0 is left to the user's ssh_config."""

    host: str
    user: str = ""
    port: int = 0

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"ssh://{self.user and self.user + '@'}{host}{(self.port and f':{self.port}') or ''}"

    @property
    def arguments(self) -> list[str]:
        """For the command ``ssh``: options and host."""
        user = ["-l", self.user] if self.user else []
        port = ["-p", str(self.port)] if self.port else []
        return [*user, *port, "--", self.host]


def parse_address(text: str) -> SshAddress:
    """Read an address; raises ``InputError`` for any other form, and for one with a password."""
    match = _URL.fullmatch(text)
    if match is None or int(match["port"] or 1) not in range(1, _HIGHEST_PORT + 1):
        hint = (
            "; passwords are not possible: ssh-copy-id installs a key" if re.search(r":[^/@]*@", text) else ""
        )
        raise InputError(f"{quoted(text)} is no login: write ssh://user@host or ssh://user@host:port{hint}")
    return SshAddress(match["ipv6"] or match["name"], match["user"] or "", int(match["port"] or 0))
