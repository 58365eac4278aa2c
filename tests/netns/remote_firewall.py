"""A firewall elsewhere: sshd in a namespace with two test ports, reached by a cable of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from weirlab.base import programs
from weirlab.lab.linux.namespace import Namespace, write_sysctls
from weirlab.lab.remote.target import CONFIG

ADDRESS = "203.0.113.129"
PORTS = ("eth1", "eth2")
DEADLINE_S = 60.0


class RemoteFirewall:
    """``eth0`` (203.0.113.129) is for the login, ``eth1`` and ``eth2`` for test traffic.

    Its /run is its own, as on another host. Those who log in, as root or as nobody, have the key ``user`` in
    ``folder`` and the configuration ``config``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.namespace = Namespace(f"weir-test-fw-{os.getpid()}")
        self.config = folder / "config"
        self.known = folder / "known"
        self._cable = f"fw{os.getpid()}"[:15]
        self.between = tuple(f"{self._cable}{end}" for end in "ab")
        """The other ends of its test ports' cables, on this host."""
        self._sshd: subprocess.Popen[bytes] | None = None

    def build(self) -> None:
        for name in ("host", "user", "other"):
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name))
        self.know("host")
        self.config.write_text(
            f"UserKnownHostsFile {self.known}\nGlobalKnownHostsFile /dev/null\n"
            f"IdentityFile {self.folder / 'user'}\nIdentitiesOnly yes\nIdentityAgent none\n"
            "Host fw1\n  HostName 203.0.113.129\n"
        )
        self.namespace.create()
        self.namespace.call(
            lambda: write_sysctls({"net/ipv4/ip_forward": 1, "net/ipv6/conf/all/forwarding": 1})
        )
        name = self.namespace.name
        _run("ip", "link", "add", self._cable, "type", "veth", "peer", "name", "eth0", "netns", name)
        for end, port in zip(self.between, PORTS, strict=True):
            _run("ip", "link", "add", end, "type", "veth", "peer", "name", port, "netns", name)
            Path("/proc/sys/net/ipv6/conf", end, "disable_ipv6").write_text("1")
            _run("ip", "link", "set", end, "up")
            # Frames that XDP redirects to the port need a receiver with NAPI at the other end.
            _run("ip", "netns", "exec", name, "ethtool", "-K", port, "gro", "on")
        _run("ip", "addr", "add", "203.0.113.130/30", "dev", self._cable)
        for port, address in zip(("eth0", *PORTS), (ADDRESS, "198.18.0.1", "198.19.0.1"), strict=True):
            _run("ip", "-n", name, "addr", "add", f"{address}/{30 if port == 'eth0' else 16}", "dev", port)
            _run("ip", "-n", name, "link", "set", port, "up")
        _run("ip", "link", "set", self._cable, "up")

    def know(self, key: str) -> None:
        """Have those who log in know this host key."""
        public = (self.folder / f"{key}.pub").read_text()
        self.known.write_text(f"{ADDRESS} {public}fw1 {public}")

    def start(self, **options: str) -> None:
        given = {
            "HostKey": self.folder / "host",
            "AuthorizedKeysFile": "/run/user.pub",
            "ListenAddress": ADDRESS,
            "StrictModes": "no",
            "PermitRootLogin": "yes",
            "UsePAM": "no",
            "PidFile": "none",
            **options,
        }
        words = " ".join(f"-o {name}={value}" for name, value in given.items())
        # Shells that read nothing of this host's users, whatever those have in their profiles.
        users = "s#^nobody:.*#nobody:x:65534:65534::/:/bin/sh#; s#^root:.*#root:x:0:0::/run:/bin/sh#"
        script = f"""
            mount -t tmpfs -o size=256k tmpfs /run && mkdir /run/sshd && cp {self.folder}/user.pub /run &&
            sed '{users}' /etc/passwd >/run/passwd && mount --bind /run/passwd /etc/passwd &&
            exec /usr/sbin/sshd -D -e -f /dev/null {words}
        """
        self._sshd = self.namespace.call(
            lambda: programs.start(["unshare", "--mount", "sh", "-c", script], stderr=subprocess.PIPE)
        )
        assert self._sshd.stderr is not None
        for line in self._sshd.stderr:
            if b"Server listening" in line:
                return
        pytest.fail("sshd does not start")

    def kill(self) -> None:
        """End sshd and every process below it, as a power cut ends a login."""
        assert self._sshd is not None
        for process in (*_below(self._sshd.pid), self._sshd.pid):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._sshd.wait()

    def processes(self) -> list[int]:
        """All processes in its namespace."""
        command = ["ip", "netns", "pids", self.namespace.name]
        return [
            int(word) for word in subprocess.run(command, capture_output=True, check=False).stdout.split()
        ]

    def run(self, *command: str) -> str:
        """What a command prints there, run on the firewall itself."""
        done = self.namespace.call(lambda: programs.run(command, capture_output=True, text=True))
        return str(done.stdout)

    def path(self, name: str) -> Path:
        """A file of the firewall's, seen from here; only as long as it runs."""
        assert self._sshd is not None
        return Path(f"/proc/{self._sshd.pid}/root{name}")

    def close(self) -> None:
        if self._sshd is not None:
            self.kill()
            assert self._sshd.stderr is not None
            self._sshd.stderr.close()
        for process in self.processes():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        for link in (self._cable, *self.between):
            subprocess.run(["ip", "link", "del", link], capture_output=True, check=False)
        self.namespace.remove()


@contextmanager
def remote_firewall(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RemoteFirewall]:
    if programs.find("sshd") is None or programs.find("ssh-keygen") is None:
        pytest.skip("sshd or ssh-keygen is not installed")
    firewall = RemoteFirewall(folder)
    monkeypatch.setenv(CONFIG, str(firewall.config))
    monkeypatch.delenv("SUDO_UID", raising=False)
    try:
        firewall.build()
        firewall.start()
        yield firewall
    finally:
        firewall.close()


def _below(process: int) -> Sequence[int]:
    """All processes below ``process``, by their parents."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents.setdefault(int(path.read_text().rpartition(")")[2].split()[1]), []).append(
                int(path.parent.name)
            )
    found = list(parents.get(process, []))
    for child in found:
        found += parents.get(child, [])
    return found


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def wait_until(condition: object) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.02)
