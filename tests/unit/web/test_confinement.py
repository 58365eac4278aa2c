"""What the processes that read what strangers sent can do: their own work, and nothing else."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from weirlab.base import confinement, programs
from weirlab.web.children import NO_MEMORY, ChildFailure, Children
from weirlab.web.launching.jobs import CaptureJob, ProcessJob, ServiceFolders
from weirlab.web.launching.launcher import DirectLauncher

DATA_ID: Final = "0123456789abcdef" * 2

TOKEN: Final = "correct horse battery staple"
MEMORY_BYTES: Final = 1_000_000_000

# Imported before the process is confined, as the code of every child is.
CHILD: Final = """
import ctypes, os, platform, resource, signal, socket, subprocess, sys, threading
from pathlib import Path
from weirlab.base import files
from weirlab.web.child import serve

libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {
    "x86_64": {"ptrace": 101, "mount": 165, "unshare": 272, "bpf": 321},
    "aarch64": {"ptrace": 117, "mount": 40, "unshare": 97, "bpf": 280},
}[platform.machine()]

def call(name, *arguments):
    if libc.syscall(NUMBERS[name], *arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

ATTEMPTS = {
    "read a file of the host": lambda r: Path(r["host_file"]).read_text(),
    "read /etc/shadow": lambda r: Path("/etc/shadow").read_text(),
    "read /etc/passwd": lambda r: Path("/etc/passwd").read_text(),
    "list the folder above": lambda r: os.listdir(Path(r["folder"]).parent),
    "read what others sent": lambda r: (Path(r["folder"]).parent / "other" / "capture").read_text(),
    "write beside its folder": lambda r: (Path(r["folder"]).parent / "made").write_text("x"),
    "write to /tmp": lambda r: Path("/tmp/weir-made").write_text("x"),
    "write to its code": lambda r: (Path(sys.prefix) / "made").write_text("x"),
    "change its code": lambda r: open(files.__file__, "a"),
    "read the parent's environment": lambda r: Path(f"/proc/{os.getppid()}/environ").read_bytes(),
    "read the parent's memory": lambda r: open(f"/proc/{os.getppid()}/mem", "rb").read(1),
    "make a TCP socket": lambda r: socket.socket(),
    "make a UNIX socket": lambda r: socket.socket(socket.AF_UNIX),
    "make a packet socket": lambda r: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
    "make a pair of sockets": lambda r: socket.socketpair(),
    "fork": lambda r: os.fork() or os._exit(0),
    "start a program": lambda r: subprocess.run(["/bin/true"], check=True),
    "become a program": lambda r: os.execv("/bin/true", ["true"]),
    "signal the parent": lambda r: os.kill(os.getppid(), 0),
    "signal the first process": lambda r: os.kill(1, 0),
    "trace the parent": lambda r: call("ptrace", 16, os.getppid(), 0, 0),
    "load a BPF program": lambda r: call("bpf", 5, 0, 0),
    "make a user namespace": lambda r: call("unshare", 0x10000000),
    "mount": lambda r: call("mount", b"none", b"/", b"tmpfs", 0, 0),
    "become root": lambda r: os.setuid(0),
    "see the limits of the parent": lambda r: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE),
}

def attempt(request):
    found = {}
    for name, act in ATTEMPTS.items():
        try:
            act(request)
            found[name] = "done"
        except OSError as error:
            found[name] = error.strerror or str(error)
    return found

def work(request):
    folder = Path(request["folder"])
    files.write_bytes(folder / "made", b"1")
    files.write_bytes(folder / "made", b"2")
    (folder / "sub").mkdir()
    (folder / "sub" / "file").write_text("x")
    (folder / "sub" / "file").rename(folder / "moved")
    done = []
    threads = [threading.Thread(target=done.append, args=(1,)) for _ in range(3)]
    for each in threads: each.start()
    for each in threads: each.join()
    import polars
    polars.DataFrame({"n": range(100_000, 0, -1)}).write_parquet(folder / "table")
    rows = polars.scan_parquet(folder / "table").sort("n").collect()
    return {"threads": len(done), "first": rows["n"][0], "capture": (folder / "capture").read_text()}

DEEDS = {
    "attempt": attempt,
    "work": work,
    "fill": lambda r: {"bytes": len(bytearray(r["memory_bytes"]))},
    "environment": lambda r: dict(os.environ),
    "abort": lambda r: os.abort(),
}
serve(DEEDS, "capture")
"""


PAGE: Final = """
import ctypes, fcntl, os, platform, pty, socket, subprocess, sys, termios, json
from pathlib import Path
from weirlab.base import confinement
from weirlab.web.launching import separation
from weirlab.web.launching.jobs import ServiceFolders

store, host_file = Path(sys.argv[1]), sys.argv[2]
_, terminal = pty.openpty()
# Its own, as that of whoever starts the service is.
fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
confinement.enter(separation.kept(ServiceFolders(store), None))

libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {"x86_64": {"ptrace": 101, "bpf": 321}, "aarch64": {"ptrace": 117, "bpf": 280}}[platform.machine()]

def call(name, *arguments):
    if libc.syscall(NUMBERS[name], *arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

def serve():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with socket.create_connection(listener.getsockname()) as one, listener.accept()[0] as other:
            one.sendall(b"x")
            return other.recv(1)

ATTEMPTS = {
    "own: read a run": lambda: (store / "run" / "manifest.json").read_text(),
    "own: write a measurement": lambda: (store / "web" / "made").write_text("x"),
    "own: serve": serve,
    "own: start a program": lambda: subprocess.run(["/bin/true"], check=True),
    "own: look up names": lambda: Path("/etc/hosts").read_text(),
    "change a run": lambda: (store / "run" / "manifest.json").write_text("x"),
    "make a run": lambda: (store / "other").mkdir(),
    "replace the folder of measurements": lambda: (store / "web").rename(store / "other"),
    "read a file of the host": lambda: Path(host_file).read_text(),
    "read /etc/shadow": lambda: Path("/etc/shadow").read_text(),
    "write to /etc": lambda: Path("/etc/weir-made").write_text("x"),
    "write to /tmp": lambda: Path("/tmp/weir-made").write_text("x"),
    "read the parent's environment": lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes(),
    "record packets": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
    "make a Bluetooth socket": lambda: socket.socket(31, socket.SOCK_RAW, 1),
    "type on the terminal": lambda: fcntl.ioctl(terminal, termios.TIOCSTI, b"x"),
    "trace the parent": lambda: call("ptrace", 16, os.getppid(), 0, 0),
    "load a BPF program": lambda: call("bpf", 5, 0, 0),
    "become root": lambda: os.setuid(0),
}
found = {}
for name, act in ATTEMPTS.items():
    try:
        act()
        found[name] = "done"
    except OSError as error:
        found[name] = error.strerror or str(error)
print(json.dumps(found))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a measurement, which only its owner may look into, beside another one."""
    for name in (DATA_ID, "other"):
        (tmp_path / "web" / name).mkdir(mode=0o700, parents=True)
        (tmp_path / "web" / name / "capture").write_text(name)
    return tmp_path / "web" / DATA_ID


@pytest.fixture
def ask(folder: Path, tmp_path: Path) -> Iterator[Any]:
    """Has the child do something in the folder."""
    # Its folder is among those of the code, which a child reads.
    script, host_file = tmp_path / "code" / "child.py", tmp_path / "host"
    script.parent.mkdir()
    script.write_text(CHILD)
    host_file.write_text("a secret")

    def start(job: ProcessJob, stdin: int, stdout: int) -> programs.Program[Any]:
        places = ServiceFolders(tmp_path)
        command = [sys.executable, str(script), job.command(places, 0)[-1]]
        return programs.start(command, env=job.environment(places), stdin=stdin, stdout=stdout)

    children = Children(1, DirectLauncher(start))

    def asked(deed: str) -> Any:
        request = {
            "do": deed,
            "name": "the capture",
            "host_file": str(host_file),
            "memory_bytes": MEMORY_BYTES,
            "most_s": 60,
        }
        return children.ask(CaptureJob(DATA_ID), request, most_s=60)

    yield asked
    children.close()


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """What is in force on this machine, and the status of a confined process."""
    command = programs.own("weirlab.base.confinement.probe", str(tmp_path_factory.mktemp("probe")))
    found: dict[str, dict[str, str]] = json.loads(
        programs.run(command, capture_output=True, check=True).stdout
    )
    return found


def test_a_child_can_do_nothing_but_its_work(
    ask: Any, folder: Path, probed: dict[str, dict[str, str]]
) -> None:
    measures = probed["measures"]
    if refusal := measures["files"] or measures["calls"]:
        pytest.skip(refusal)
    found = ask("attempt")
    assert [name for name, result in found.items() if result == "done"] == []
    assert sorted(path.name for path in folder.parent.iterdir()) == [DATA_ID, "other"]
    assert not Path("/tmp/weir-made").exists()


def test_the_page_can_do_nothing_but_its_work(tmp_path: Path, probed: dict[str, dict[str, str]]) -> None:
    if refusal := probed["measures"]["files"] or probed["measures"]["calls"]:
        pytest.skip(refusal)
    (tmp_path / "code").mkdir()
    script = tmp_path / "code" / "page.py"
    script.write_text(PAGE)
    (tmp_path / "host").write_text("a secret")
    store = tmp_path / "store"
    for name in ("web", "run"):
        (store / name).mkdir(parents=True, mode=0o700)
    (store / "run" / "manifest.json").write_text("{}")
    command = [sys.executable, str(script), str(store), str(tmp_path / "host")]
    found = json.loads(programs.run(command, capture_output=True, check=True, start_new_session=True).stdout)
    possible = {name for name, result in found.items() if result == "done"}
    assert possible == {name for name in found if name.startswith("own: ")}
    assert sorted(os.listdir(store)) == ["run", "web"]


def test_a_child_does_its_work(ask: Any, folder: Path) -> None:
    assert ask("work") == {"threads": 3, "first": 1, "capture": DATA_ID}
    assert (folder / "made").read_bytes() == b"2"
    assert (folder / "moved").read_text() == "x"
    # Whatever user the child was: the owner of the folder can use what it left, and remove it.
    owner = folder.stat().st_uid
    assert {path.stat().st_uid for path in folder.rglob("*")} == {owner}


def test_a_child_takes_no_more_memory_than_it_may(ask: Any) -> None:
    with pytest.raises(ChildFailure, match="It needed more memory than is allowed here") as caught:
        ask("fill")
    assert str(caught.value) == NO_MEMORY


def test_a_child_that_aborts_is_reported(ask: Any) -> None:
    with pytest.raises(ChildFailure):
        ask("abort")


def test_a_child_knows_no_token(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WEIR_WEB_TOKEN", "WEIR_TCP_TOKEN", "SOME_SECRET"):
        monkeypatch.setenv(name, TOKEN)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    found = ask("environment")
    assert TOKEN not in found.values()
    assert found["LC_ALL"] == "C.UTF-8"
    own = {"HOME", "POLARS_MAX_THREADS", "POLARS_ENGINE_AFFINITY", "OPENBLAS_NUM_THREADS", "MALLOC_ARENA_MAX"}
    assert found.keys() <= {"LANG", "LANGUAGE", "TZ", "PATH", "LC_ALL", "LC_CTYPE", *own}


def test_a_link_in_the_place_of_its_folder_leads_a_child_nowhere(ask: Any, folder: Path) -> None:
    (folder / "capture").unlink()
    folder.rmdir()
    folder.symlink_to("other")
    with pytest.raises(ChildFailure):
        ask("work")
    assert os.listdir(folder.parent / "other") == ["capture"]


def test_a_child_has_no_privileges(probed: dict[str, dict[str, str]]) -> None:
    measures, status = probed["measures"], probed["status"]
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    assert measures["capabilities"] == ""
    if not measures["calls"]:
        assert status["Seccomp"] == "2"
    if measures.get("user") == "":
        assert "0" not in (*status["Uid"].split(), *status["Gid"].split())
        assert status["Groups"] == ""


def test_threads_that_would_keep_their_rights_are_refused() -> None:
    from weirlab.base.errors import MissingCapability

    hold = threading.Event()
    other = threading.Thread(target=hold.wait)
    other.start()
    try:
        with pytest.raises(MissingCapability, match="several threads"):
            confinement.enter(confinement.Confinement())
    finally:
        hold.set()
        other.join()


def test_a_user_that_nobody_is_is_one() -> None:
    found = confinement.unused_user()
    assert found is not None
    assert 61184 <= found < 65520
    assert found != os.geteuid()
