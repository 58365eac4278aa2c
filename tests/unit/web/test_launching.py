"""Processes with other rights than the service: which ones there can be, and what the helper refuses."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from weirlab.base import programs
from weirlab.base.errors import InputError, LabError, MissingCapability
from weirlab.link.settings import RecorderSettings
from weirlab.web.launching import helper, jobs, separation
from weirlab.web.launching.helper import Helper
from weirlab.web.launching.jobs import (
    CaptureJob,
    InterruptionJob,
    ProcessJob,
    RecordingJob,
    RemovalJob,
    ReportJob,
    ScenarioRunJob,
    ServiceFolders,
    TestReadingJob,
    WatchJob,
)
from weirlab.web.launching.launcher import DirectLauncher, Launcher, piped
from weirlab.web.launching.remote import RemoteLauncher
from weirlab.web.settings import VoiceSettings, WebSettings
from weirlab.web.transfers import recorder
from weirlab.web.transfers.recording import WebRecorderProcess

from .conftest import DEADLINE_S

DATA_ID: Final = "0123456789abcdef" * 2
RUN_ID: Final = "20260102-030405-profile-0a1b"
PLACES: Final = ServiceFolders(Path("/srv/weir"), may_run=True, may_watch=True)
ALL: Final = [
    CaptureJob(DATA_ID),
    TestReadingJob(DATA_ID, "tapes-x_1"),
    ReportJob(RUN_ID),
    RemovalJob(RUN_ID),
    InterruptionJob(RUN_ID),
    RecordingJob(DATA_ID, "tapes-1", "eth0", 29100, 1_000_000),
    ScenarioRunJob(),
    WatchJob("db.example.org:443"),
]
CHILD: Final = """
import signal, sys
signal.signal(signal.SIGINT, lambda *_: sys.exit(7))
print(sys.argv[1], flush=True)
for line in sys.stdin:
    print(line.strip()[::-1], flush=True)
sys.exit(3)
"""

Begin = Callable[[], Launcher]


@pytest.fixture(params=["direct", "helper"])
def launcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Launcher]:
    """Starts a process that says what kind of job it is, and repeats lines backwards."""

    def start(job: ProcessJob, stdin: int, stdout: int) -> programs.Program[Any]:
        job.command(PLACES, 0)
        command = [sys.executable, "-c", CHILD, job.KIND]
        return programs.start(command, stdin=stdin, stdout=stdout)

    if request.param == "direct":
        yield DirectLauncher(start)
        return
    monkeypatch.setattr(helper, "program", lambda places, user, *rest: start(*rest))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    thread = threading.Thread(target=Helper(theirs, PLACES, os.getpid()).serve)
    thread.start()
    with theirs, RemoteLauncher(ours, thread.join) as remote:
        yield remote


@pytest.fixture
def channel() -> Iterator[socket.socket]:
    """To a helper that may not carry out scenarios."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    thread = threading.Thread(target=Helper(theirs, ServiceFolders(Path("/srv/weir")), os.getpid()).serve)
    thread.start()
    ours.settimeout(DEADLINE_S)
    yield ours
    ours.close()
    thread.join()
    theirs.close()


@pytest.mark.parametrize("job", ALL, ids=lambda job: job.KIND)
def test_a_process_has_its_job_its_streams_and_an_exit_code(launcher: Launcher, job: ProcessJob) -> None:
    process, to, source = piped(launcher, job)
    with source:
        assert source.readline() == f"{job.KIND}\n".encode()
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0)
        with to:
            to.write(b"abc\n")
            assert source.readline() == b"cba\n"
        assert source.read() == b""
    assert process.wait() == process.wait(0) == process.poll() == 3


def test_a_process_is_interrupted_or_killed(launcher: Launcher) -> None:
    for name, code in (("interrupt", 7), ("kill", -9)):
        process, to, source = piped(launcher, CaptureJob(DATA_ID))
        with to, source:
            source.readline()
            getattr(process, name)()
            assert process.wait(DEADLINE_S) == code
            # It is gone: nothing else gets the signal.
            getattr(process, name)()


def test_processes_of_a_helper_that_is_gone_have_ended() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with RemoteLauncher(ours, lambda: None) as remote:
        theirs.close()
        with pytest.raises(LabError, match="the helper process"):
            piped(remote, CaptureJob(DATA_ID))


@pytest.mark.parametrize("job", ALL, ids=lambda job: job.KIND)
def test_a_job_survives_being_written_down(job: ProcessJob) -> None:
    assert jobs.job(**json.loads(json.dumps(jobs.document(job)))) == job


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "shell", "about": {}},
        {"kind": None, "about": {}},
        {"kind": ["capture"], "about": {}},
        {"kind": "capture", "about": {}},
        {"kind": "capture", "about": {"data_id": 1}},
        {"kind": "capture", "about": {"data_id": DATA_ID, "folder": "/etc"}},
        {"kind": "scenario", "about": {"store": "/etc"}},
        {"kind": "scenario", "about": None},
    ],
)
def test_what_is_no_job_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(
        ValueError, match=r"no job of this kind|CaptureJob|data_id|folder|store|ScenarioRunJob"
    ):
        jobs.job(**document)


@pytest.mark.parametrize(
    "job",
    [
        CaptureJob("../../etc"),
        CaptureJob(DATA_ID + "\n"),
        CaptureJob(DATA_ID.upper()),
        TestReadingJob(DATA_ID, ".."),
        TestReadingJob(DATA_ID, "tapes-../x"),
        TestReadingJob("..", "tapes-1"),
        ReportJob("../web"),
        ReportJob(RUN_ID + "/.."),
        RecordingJob(DATA_ID, "", "eth0", 29100, 1),
        RecordingJob(DATA_ID, "tapes-1", "../eth0", 29100, 1),
        RecordingJob(DATA_ID, "tapes-1", "--help", 29100, 1),
        RecordingJob(DATA_ID, "tapes-1", "eth0", 0, 1),
        RecordingJob(DATA_ID, "tapes-1", "eth0", 65536, 1),
        RecordingJob(DATA_ID, "tapes-1", "eth0", 29100, -1),
        WatchJob("--json"),
        WatchJob("curl --time 1s"),
        WatchJob(""),
    ],
)
def test_a_job_names_nothing_outside_of_its_place(job: ProcessJob) -> None:
    with pytest.raises(ValueError, match=r"this is no (data ID|run ID|folder|interface|connection)|out of"):
        job.command(PLACES, 0)


def test_a_job_has_the_folder_that_it_names_and_no_other() -> None:
    folder = f"/srv/weir/web/{DATA_ID}"
    assert CaptureJob(DATA_ID).command(PLACES, 0)[-1:] == [folder]
    assert TestReadingJob(DATA_ID, "tapes-x").command(PLACES, 0)[-1:] == [f"{folder}/tapes-x"]
    assert ReportJob(RUN_ID).command(PLACES, 0)[-2:] == [f"/srv/weir/{RUN_ID}", "/srv/weir"]
    recording = RecordingJob(DATA_ID, "tapes-x", "eth0.7", 80, 9).command(PLACES, 1234)
    assert recording[-5:] == [f"{folder}/tapes-x", "eth0.7", "80", "9", "1234"]
    assert ScenarioRunJob().command(PLACES, 0)[-1:] == ["/srv/weir"]
    for target in (":443", "[2001:db8::1]:443", "10.0.0.1:40000-192.0.2.1:443", "4711", "g++"):
        assert WatchJob(target).command(PLACES, 0)[-1:] == [target]


def test_scenarios_and_watches_need_permission() -> None:
    with pytest.raises(ValueError, match="may not start scenarios"):
        ScenarioRunJob().command(ServiceFolders(Path("/srv/weir"), may_watch=True), 0)
    with pytest.raises(ValueError, match="may not show connections"):
        WatchJob(":443").command(ServiceFolders(Path("/srv/weir"), may_run=True), 0)


def test_no_process_knows_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_WEB_TOKEN", "correct horse")
    monkeypatch.setenv("WEIR_TCP_TOKEN", "battery staple")
    for environment in (*(job.environment(PLACES) for job in ALL), jobs.without_secrets()):
        assert not {"correct horse", "battery staple"} & {*environment.values()}


@pytest.mark.parametrize(
    "message",
    [
        b"{",
        b"[]",
        b"1",
        b'{"start": "1"}',
        b'{"start": true}',
        b'{"signal": 9, "by": "kill"}',
        b"\xff",
        b"{}",
    ],
)
def test_the_helper_ignores_what_is_no_request(channel: socket.socket, message: bytes) -> None:
    channel.send(message)
    channel.send(json.dumps({"start": 5, **jobs.document(ScenarioRunJob())}).encode())
    assert json.loads(channel.recv(1000))["refused"] == 5


def test_the_helper_says_what_it_refuses_and_keeps_no_descriptor(channel: socket.socket) -> None:
    read, write = os.pipe()
    for request, said in (
        ({"kind": "shell", "about": {}}, "there is no job of this kind"),
        (jobs.document(ScenarioRunJob()), "this service may not start scenarios"),
        (jobs.document(WatchJob(":443")), "this service may not show connections"),
        (jobs.document(CaptureJob("../..")), "this is no data ID"),
    ):
        socket.send_fds(channel, [json.dumps({"start": 1, **request}).encode()], [read, write])
        assert json.loads(channel.recv(1000)) == {"refused": 1, "message": said}
    channel.send(json.dumps({"start": 2, **jobs.document(CaptureJob(DATA_ID))}).encode())
    assert json.loads(channel.recv(1000))["message"] == "a process needs two streams"
    os.close(write)
    # Otherwise, this would wait for the helper's copies.
    assert os.read(read, 1) == b""
    os.close(read)


def table(*lines: str) -> io.StringIO:
    head = (
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    )
    return io.StringIO(head + "".join(f"{line}\n" for line in lines))


@pytest.mark.skipif(sys.byteorder == "big", reason="the tables are as a little-endian machine writes them")
def test_connections_of_a_user_are_read_from_the_tables_of_the_kernel() -> None:
    rest = "01 00000000:00000000 00:00000000 00000000"
    four = table(
        f"0: 0100007F:9474 0100007F:71AC {rest} 1000 0 1 1",
        f"1: 0100007F:9475 0100007F:71AC {rest} 1001 0 1 1",
        "a line that is cut",
    )
    six = table(
        f"0: B80D0120000000000000000001000000:0050 B80D0120000000000000000002000000:C350 {rest} 1000 0 1 1",
        f"1: 0000000000000000FFFF0000010200C0:0051 0000000000000000FFFF0000020200C0:C351 {rest} 1000 0 1 1",
    )
    for _ in range(2):
        assert [*recorder.connections([four, six], 1000)] == [
            (("127.0.0.1", 38004), ("127.0.0.1", 29100)),
            (("2001:db8::1", 80), ("2001:db8::2", 50000)),
            (("192.0.2.1", 81), ("192.0.2.2", 50001)),
        ]


def test_a_recorder_that_may_not_record_says_why(tmp_path: Path) -> None:
    said = json.dumps({"error": {"kind": "MissingCapability", "message": "needs CAP_NET_RAW"}})

    def start(job: ProcessJob, stdin: int, stdout: int) -> programs.Program[Any]:
        return programs.start([sys.executable, "-c", f"print({said!r})"], stdin=stdin, stdout=stdout)

    settings = RecorderSettings(tmp_path / DATA_ID / "tapes-1" / "c", tcp_port=1, most_bytes=1)
    with pytest.raises(MissingCapability, match="needs CAP_NET_RAW"):
        WebRecorderProcess(DirectLauncher(start), settings, "lo")


def test_a_recorder_that_dies_is_an_error_of_the_lab(tmp_path: Path) -> None:
    def start(job: ProcessJob, stdin: int, stdout: int) -> programs.Program[Any]:
        return programs.start([sys.executable, "-c", ""], stdin=stdin, stdout=stdout)

    settings = RecorderSettings(tmp_path / DATA_ID / "tapes-1" / "c", tcp_port=1, most_bytes=1)
    with pytest.raises(LabError, match="has ended"):
        WebRecorderProcess(DirectLauncher(start), settings, "lo")


def test_as_root_a_plan_needs_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (tmp_path / "plans").mkdir()
    for name in ("plan.db", "plan.db-wal", "plan.db-shm", "plan.db-journal"):
        (tmp_path / "plans" / name).touch()
    (tmp_path / ".ssh").mkdir()
    voice = VoiceSettings(str(tmp_path / "plans" / "plan.db"))
    places = ServiceFolders(tmp_path / "store")
    assert [*separation._written(places, voice)] == [places.measurements, tmp_path / "plans"]
    with pytest.raises(InputError, match=r"a folder of its own.*also has '\.ssh'"):
        [*separation._written(places, VoiceSettings(str(tmp_path / "plan.db")))]


def test_the_service_reads_the_secrets_that_zone_management_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSFILE", "/srv/passwords")
    configuration = tmp_path / "rndc.conf"
    configuration.write_text('include "/etc/bind/rndc.key";\noptions { default-key "k"; };\n')
    voice = VoiceSettings("postgresql://weir@db/voice", rndc=str(configuration))
    assert [*separation._read_as_owner(voice)] == [
        Path("/srv/passwords"),
        configuration,
        Path("/etc/bind/rndc.key"),
    ]
    assert [*separation._written(ServiceFolders(tmp_path), voice)] == [tmp_path / "web"]


@pytest.mark.parametrize(("name", "said"), [("root", "name another user"), ("no-such-user", "no such user")])
def test_the_service_becomes_a_user_that_is_not_root(
    name: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(InputError, match=said):
        separation._wanted(name)
    monkeypatch.setattr(separation, "USER", "nobody")
    assert separation._wanted(None) == separation._wanted("nobody") != 0


def test_only_root_becomes_another_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 65_534)
    with pytest.raises(InputError, match="only root can become another user"):
        separation.separate(WebSettings(), tmp_path, "root")
    assert separation._wanted("nobody") is None
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("name", [None, "nobody"])
def test_a_user_that_was_named_is_had_or_the_service_does_not_start(
    name: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = {"view": "no mounts here", "user": "user 9 could not use the files as they are", "calls": ""}
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(separation.confinement, "enter", lambda kept, user: refused)
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(
        separation.RemoteLauncher, "started", lambda places: RemoteLauncher(ours, lambda: None)
    )
    with ours, theirs:
        if name is None:
            _, root, separated = separation.separate(WebSettings(), tmp_path, name)
            assert root == tmp_path
            assert "not a user of its own (user 9 could not" in separated.lacking()
            return
        with pytest.raises(MissingCapability, match=r"--user 'nobody': user 9 could not .*; run weir web as"):
            separation.separate(WebSettings(), tmp_path, name)
