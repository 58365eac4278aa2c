"""What ssh says when a login fails, and as whom it runs. Real logins are in tests/netns."""

from __future__ import annotations

import os
import pwd
import subprocess
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from weirlab.base import programs
from weirlab.base.errors import MissingCapability
from weirlab.lab.remote import target
from weirlab.lab.remote.target import SshTarget, UnreachableTarget, parse_address


class Answers(SshTarget):
    """Is connected, and runs ``ssh`` as the test says."""

    def __init__(self, login: str = "ssh://root@fw1", root: bool = True) -> None:
        super().__init__(parse_address(login))
        self._root = root

    def _connect(self) -> None:
        self._folder = Path("/run/weir/ssh-x")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What every ``ssh`` answers (code, error text), and then each command that was started."""
    record: list[Any] = [(0, "")]

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        record.append((command, options))
        code, text = record[0]
        return subprocess.CompletedProcess(command, code, "", text)

    monkeypatch.setattr(programs, "run", run)
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.delenv(target.CONFIG, raising=False)
    return record


@pytest.mark.parametrize(
    ("stderr", "message"),
    [
        (
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
            "ssh-keygen -R fw1",
        ),
        (
            "No ED25519 host key is known for fw1 and you have requested strict checking.",
            "log in by hand once",
        ),
        ("root@fw1: Permission denied (publickey,password).", "install a key .ssh-copy-id fw1."),
        ("ssh: connect to host fw1 port 22: Connection refused", "nothing listens at its SSH port"),
        ("ssh: connect to host fw1 port 22: Connection timed out", "it does not answer"),
        ("ssh: Could not resolve hostname fw1: Name or service not known", "its name is unknown"),
        ("Timeout, server fw1 not responding.", "it does not answer"),
        ("client_loop: send disconnect: Broken pipe", "it ended the connection"),
        ("first line\nsomething new", "ssh://root@fw1: something new$"),
        ("", "the connection ended"),
    ],
)
def test_each_failure_says_what_to_do(stderr: str, message: str, started: list[Any]) -> None:
    started[0] = (255, stderr)
    with pytest.raises(UnreachableTarget, match=message):
        Answers().run(["true"])


def test_the_failure_of_a_command_is_none_of_the_login(started: list[Any]) -> None:
    started[0] = (1, "Error: Could not process rule")
    assert Answers().run(["nft"]).returncode == 1


@pytest.mark.parametrize("stderr", ["bash: line 1: sudo: command not found", "sudo: a password is required"])
def test_a_login_without_sudo_is_refused(stderr: str, started: list[Any]) -> None:
    started[0] = (1, stderr)
    with pytest.raises(MissingCapability, match="sudo -n does not work there"):
        Answers(root=False).run(["nft"])


def test_only_another_users_commands_run_by_sudo(started: list[Any]) -> None:
    Answers().run(["nft", "-f", "-"])
    Answers(root=False).run(["nft", "-f", "-"])
    first, second = (command[-1] for command, _ in started[1:])
    assert first.startswith("sh -c ")
    assert first.endswith("sh nft -f -")
    assert second == f"sudo -n -- {first}"


def test_options_forbid_passwords_and_unknown_hosts_and_leave_the_rest_to_the_user(
    started: list[Any],
) -> None:
    Answers("ssh://fw1").run(["true"])
    command = started[1][0]
    options = {word for before, word in pairwise(command) if before == "-o"}
    assert {
        "BatchMode=yes",
        "StrictHostKeyChecking=yes",
        "ConnectTimeout=10",
        "ServerAliveInterval=20",
        "ControlPersist=no",
    } <= options
    assert not {"-F", "-l", "-p", "-i"} & set(command)
    assert command[-3:-1] == ["--", "fw1"]


def test_arguments_arrive_whatever_is_in_them(started: list[Any]) -> None:
    Answers().run(["echo", "a b", "$HOME", "'", "-n"])
    command = started[1][0]
    done = subprocess.run(["sh", "-c", command[-1]], capture_output=True, text=True, check=True)
    assert done.stdout == "a b $HOME ' -n\n"


def test_under_sudo_ssh_runs_as_the_user_who_called_it(
    started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = pwd.getpwnam("nobody")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_UID", str(nobody.pw_uid))
    Answers().run(["true"])
    monkeypatch.setenv("SUDO_UID", "0")
    Answers().run(["true"])
    first, second = (options for _, options in started[1:])
    assert (first["user"], first["group"]) == (nobody.pw_uid, nobody.pw_gid)
    assert "user" not in second


@pytest.mark.parametrize("noise", ["", "Welcome\\n", "one\\ntwo\\n\\377three\\n", "no end of line: "])
def test_the_greeting_is_found_whatever_the_shell_prints_before(noise: str) -> None:
    script = f"printf '{noise}weir-is-logged-in 0 192.0.2.1 4 192.0.2.2 22\\n'; exec cat >/dev/null"
    with programs.start(
        ["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as master:
        assert target._greeting(master, time.monotonic() + 5)[:2] == ["0", "192.0.2.1"]
        assert master.stdin is not None
        master.stdin.close()


def test_another_configuration_of_ssh_can_be_given(
    started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(target.CONFIG, "/tmp/other")
    Answers().run(["true"])
    assert started[1][0][:3] == ["ssh", "-F", "/tmp/other"]
