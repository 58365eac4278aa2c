"""Where the commands of a device run: ``ssh://user@host:port``, by OpenSSH's client."""

from __future__ import annotations

import fcntl
import os
import pwd
import re
import select
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from weirlab.base import programs
from weirlab.base.errors import InputError, LabError, MissingCapability
from weirlab.base.interrupts import shielded
from weirlab.base.quoting import quoted
from weirlab.lab import clean
from weirlab.lab.dut.tool import MOST_S
from weirlab.lab.linux.syscalls import way_out

Output = subprocess.CompletedProcess[str]

CONFIG: Final = "WEIR_SSH_CONFIG"
"""Environment variable that names another file than ``~/.ssh/config``."""

_CONNECT_S: Final = 10
_LOGIN_S: Final = 30.0
"""Time limit for a login through any number of jump hosts."""
_OPTIONS: Final = {
    "BatchMode": "yes",
    # A connection that persists, as many users configure it, would outlive this process.
    "ControlPersist": "no",
    "StrictHostKeyChecking": "yes",
    "ConnectTimeout": str(_CONNECT_S),
    # A dead host is noticed within a minute. Shorter intervals would put packets into trials.
    "ServerAliveInterval": "20",
    "ServerAliveCountMax": "3",
    "LogLevel": "ERROR",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "ClearAllForwardings": "yes",
    "PermitLocalCommand": "no",
}
_FAILED: Final = 255
"""Exit code of ssh when it is not that of the command."""
_READY: Final = "weir-is-logged-in"
# sh everywhere: the login shell may be csh. PATH: that of a login without root often lacks the sbin folders.
_SHELL: Final = 'PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin LC_ALL=C; export PATH LC_ALL; exec "$@"'

_REASONS: Final = (
    (
        r"IDENTIFICATION HAS CHANGED",
        "its host key is not the one that your known_hosts has: another machine answers, or it was installed "
        "anew. If you know why, remove the old key with ssh-keygen -R {host}, and log in by hand once",
    ),
    (
        r"No \S+ host key is known|Host key verification failed",
        "its host key is not known here: log in by hand once and compare the key (ssh {host})",
    ),
    (
        r"Permission denied|Too many authentication failures",
        "it accepts no key of yours, and Weir types no password: install a key (ssh-copy-id {host}), or "
        "start ssh-agent",
    ),
    (r"Connection refused", "nothing listens at its SSH port: start sshd there, or give the port with ssh://host:port"),
    (r"Could not resolve hostname", "its name is unknown: check the spelling, or write its address"),
    (
        r"timed out|No route to host|Network is unreachable|Timeout, server|not responding",
        "it does not answer: check the cable, the address, and a firewall in between",
    ),
    (
        r"closed by|reset by|Broken pipe|Connection closed|lost connection|kex_exchange",
        "it ended the connection: see its log (journalctl -u ssh)",
    ),
)  # fmt: skip


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


class SshTarget:
    """A host that :class:`~weirlab.lab.remote.target.SshAddress` names. The first command connects.

    Commands run as root, by ``sudo -n`` if the login is another user's. With ``sudo weir``, ssh runs as the
    user who called sudo, so that his keys and known hosts count.
    """

    def __init__(self, address: SshAddress) -> None:
        self.address = address
        self.name = address.host
        self._master: programs.Program[str] | None = None
        self._folder: Path | None = None
        self._lock: int | None = None
        self._client = ""
        self._root = True

    def run(self, argv: Sequence[str], stdin: str = "") -> Output:
        if self._master is None or self._master.poll() is not None:
            self._connect()
        sudo = () if self._root else ("sudo", "-n", "--")
        done = self._ssh([*sudo, "sh", "-c", _SHELL, "sh", *argv], stdin)
        if sudo and done.returncode:
            self._refuse_without_rights(done.stderr)
        return done

    def check_login(self) -> None:
        done = self._ssh(["true"], "", "ControlPath=none")
        if done.returncode:
            raise UnreachableTarget(f"{self.address}: a new login ends with {done.returncode}")

    def client(self) -> str:
        if self._master is None:
            self._connect()
        return self._client

    @shielded
    def close(self) -> None:
        master, self._master = self._master, None
        if master is not None:
            _end(master)
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @shielded
    def _connect(self) -> None:
        """Open the shared connection, and find out who Weir is there."""
        if programs.find("ssh") is None:
            raise MissingCapability("ssh is not installed: apt install openssh-client")
        self.close()
        clean.sweep_connections()
        account = _account()
        try:
            clean.LOCKS.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._folder = Path(tempfile.mkdtemp(prefix=clean.CONNECTION, dir=clean.LOCKS))
            self._lock = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            if account:
                os.chown(self._folder, account["user"], account["group"])
        except OSError as error:
            self.close()
            raise MissingCapability(
                f"no connection can be kept in {clean.LOCKS}: {error.strerror}; {way_out(error)}"
            ) from error
        hello = f"echo {_READY} `id -u` $SSH_CONNECTION; exec cat >/dev/null"
        with tempfile.TemporaryFile("w+") as errors:
            master = programs.start(
                self._command(["sh", "-c", hello], "ControlMaster=yes"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                errors="replace",
                **account,
            )
            greeting = _greeting(master, time.monotonic() + _LOGIN_S)
            if not greeting:
                _end(master)
                errors.seek(0)
                text = errors.read()
                self.close()
                raise self._unreachable(text or f"no login within {_LOGIN_S:.0f} s: timed out")
        self._master = master
        self._root = greeting[0] == "0"
        self._client = (greeting[1:] or [""])[0]

    def _command(self, argv: Sequence[str], *options: str) -> list[str]:
        """``ssh`` with ``argv``; each argument arrives as it is, whatever shell the login has."""
        config = os.environ.get(CONFIG)
        assert self._folder is not None
        given = (
            *options,
            *(f"{key}={value}" for key, value in _OPTIONS.items()),
            f"ControlPath={self._folder}/c",
        )
        return [
            "ssh",
            *(["-F", config] if config else []),
            "-T",
            *(word for option in given for word in ("-o", option)),
            *self.address.arguments,
            shlex.join(argv),
        ]

    def _ssh(self, argv: Sequence[str], stdin: str, *options: str) -> Output:
        try:
            done: Output = programs.run(
                self._command(argv, *(options or ("ControlMaster=no",))),
                input=stdin,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=MOST_S,
                **_account(),
            )
        except subprocess.TimeoutExpired:
            raise UnreachableTarget(
                f"{self.address}: {shlex.join(argv[-3:])[:80]} did not end within {MOST_S} s"
            ) from None
        if done.returncode == _FAILED:
            raise self._unreachable(done.stderr)
        return done

    def _unreachable(self, stderr: str) -> UnreachableTarget:
        host = self.address.host
        last = [line.strip() for line in stderr.splitlines() if line.strip()][-1:] or ["the connection ended"]
        for pattern, advice in _REASONS:
            if re.search(pattern, stderr, re.IGNORECASE):
                return UnreachableTarget(f"{self.address}: {advice.format(host=host)} ({last[0]})")
        return UnreachableTarget(f"{self.address}: {last[0]}")

    def _refuse_without_rights(self, stderr: str) -> None:
        """Raise ``MissingCapability`` if it was sudo that refused."""
        if re.search(
            r"^(\S*sh: .*)?sudo: .*(not found|password|terminal|have a tty|not allowed)|not in the sudoers",
            stderr,
            re.M,
        ):
            raise MissingCapability(
                f"{self.address}: the login is no root's, and sudo -n does not work there "
                f"({stderr.strip().splitlines()[-1]}): log in as root, or allow this user sudo without a "
                "password"
            )


def _account() -> dict[str, Any]:
    """Options for starting ssh as the user who called sudo; none without sudo."""
    number = os.environ.get("SUDO_UID", "")
    if os.geteuid() or not number.isdecimal() or int(number) == 0:
        return {}
    try:
        user = pwd.getpwuid(int(number))
    except KeyError:
        return {}
    groups = os.getgrouplist(user.pw_name, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": groups}


def _greeting(master: programs.Program[str], end_s: float) -> list[str]:
    """User ID and connection that the login shell reports; empty if it ended or gives none in time."""
    assert master.stdout is not None
    # Not by its own buffer, which may hold our line while select waits for more: shells print other lines.
    source, printed = master.stdout.fileno(), b""
    while (left_s := end_s - time.monotonic()) > 0:
        if not select.select([source], [], [], left_s)[0]:
            break
        piece = os.read(source, 4096)
        if not piece:
            break
        printed += piece
        _, found, rest = printed.partition(_READY.encode())
        if found and b"\n" in rest:
            return rest.partition(b"\n")[0].decode(errors="replace").split()
    return []


def _end(master: programs.Program[str]) -> None:
    """End a shared connection in good order, or by force if the host does not answer."""
    assert master.stdin is not None
    assert master.stdout is not None
    with suppress(OSError):
        master.stdin.close()
    try:
        master.wait(1.0)
    except subprocess.TimeoutExpired:
        master.terminate()
        master.wait()
    master.stdout.close()
