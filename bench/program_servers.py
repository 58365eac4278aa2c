"""The servers that bench/programs.py needs, on the far host: those that are installed."""

from __future__ import annotations

import os
import pwd
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

HOST: Final = "198.18.9.1"
OTHER: Final = "198.18.9.2"
"""Of the same host, with no server at all."""
SILENT: Final = "198.18.9.9"
"""Nobody answers."""
PORTS: Final = {
    "http": 8080,
    "https": 8443,
    "ssh": 2222,
    "rsync": 8730,
    "postgres": 5432,
    "redis": 6379,
    "iperf": 5201,
    "mysql": 3306,
    "ftp": 2121,
    "echo": 7000,
    "memcached": 11211,
    "closed": 9,
}
DATA_BYTES: Final = 3_000_000
_START_S: Final = 30.0
Enter = Callable[..., list[str]]

NGINX: Final = """
worker_processes 1; daemon off; pid {W}/nginx.pid; error_log {W}/nginx.log; user root;
events {{ worker_connections 2048; }}
http {{
  access_log off; client_body_temp_path {W}; proxy_temp_path {W}; fastcgi_temp_path {W};
  uwsgi_temp_path {W}; scgi_temp_path {W};
  server {{ listen {H}:{http} backlog=2048; root {W}/web; autoindex on; }}
  ssl_certificate {W}/cert.pem; ssl_certificate_key {W}/key.pem;
  server {{ listen {H}:{https} ssl; root {W}/web; }}
}}
"""
RSYNCD: Final = (
    "address = {H}\nport = {rsync}\nuse chroot = no\nuid = root\ngid = root\n[web]\npath = {W}/web\n"
)
SSHD: Final = (
    "HostKey {W}/host_key\nListenAddress {H}:{ssh}\nAuthorizedKeysFile {W}/user_key.pub\nStrictModes no\n"
    "PermitRootLogin yes\nUsePAM no\nPidFile none\nMaxStartups 200\nSubsystem sftp internal-sftp\n"
)
VSFTPD: Final = (
    "listen=YES\nlisten_address={H}\nlisten_port={ftp}\nanonymous_enable=YES\nanon_root={W}/web\n"
    "background=NO\nseccomp_sandbox=NO\nsecure_chroot_dir={W}/empty\nftp_username=bin\nrun_as_launching_user=NO\n"
)


@contextmanager
def servers(work: Path, enter: Enter) -> Iterator[Sequence[str]]:
    """Names of those that listen, while inside; their files are below ``work``."""
    _prepare(work)
    started = []
    with ExitStack() as stack:
        for name, words, user in _commands(work):
            if shutil.which(words[0]) is None and not Path(words[0]).exists():
                continue
            log = stack.enter_context((work / f"{name}.log").open("wb"))
            own = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
            process = subprocess.Popen(
                enter(*own, *words), stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=work
            )
            stack.callback(_end, process)
            if _listens(name, enter):
                started += [name, "https"] if name == "http" else [name]
        yield started


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(10)
        return
    process.kill()
    process.wait()


def _listens(name: str, enter: Enter) -> bool:
    until = time.monotonic() + _START_S
    probe = f"exec 3<>/dev/tcp/{HOST}/{PORTS[name]}"
    while time.monotonic() < until:
        if subprocess.run(enter("bash", "-c", probe), capture_output=True, check=False).returncode == 0:
            return True
        time.sleep(0.1)
    return False


def _prepare(work: Path) -> None:
    web = work / "web"
    for folder in (web, work / "empty", work / "repository"):
        folder.mkdir()
    draw = random.Random(5)
    (web / "data.bin").write_bytes(draw.randbytes(DATA_BYTES))
    (web / "small.txt").write_text("small\n")
    for number in range(40):
        (web / f"file{number}").write_bytes(draw.randbytes(20_000))
    (work / "queries.sql").write_text(
        "select md5(string_agg(n::text, ',')) from generate_series(1, 200000) n;\n"
    )
    commands = [
        "openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=bench "
        f"-keyout {work}/key.pem -out {work}/cert.pem",
        f"ssh-keygen -q -t ed25519 -N  -f {work}/host_key",
        f"ssh-keygen -q -t ed25519 -N  -f {work}/user_key",
        f"git init -q {work}/repository",
        f"git -C {work}/repository -c user.name=b -c user.email=b@b commit -q --allow-empty -m first",
        f"git clone -q --bare {work}/repository {web}/repository.git",
        f"git -C {web}/repository.git update-server-info",
    ]
    shutil.copytree(web, work / "repository" / "files")
    add = f"git -C {work}/repository add files"
    commit = f"git -C {work}/repository -c user.name=b -c user.email=b@b commit -q -m files"
    for command in [*commands[:4], add, commit, *commands[5:]]:
        # -N of ssh-keygen takes an empty word.
        words = [word if word != "''" else "" for word in command.replace("-N  -f", "-N '' -f").split(" ")]
        subprocess.run(words, check=True, capture_output=True)
    options = (
        f"-i {work}/user_key -o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no -o LogLevel=ERROR"
    )
    (work / "ssh").write_text(
        f'#!/bin/sh\nexec ssh -F /dev/null -o BatchMode=yes {options} -p {PORTS["ssh"]} "$@"\n'
    )
    (work / "ssh").chmod(0o755)
    for name, text in {
        "nginx.conf": NGINX,
        "rsyncd.conf": RSYNCD,
        "sshd.conf": SSHD,
        "vsftpd.conf": VSFTPD,
    }.items():
        (work / name).write_text(text.format(W=work, H=HOST, **PORTS))
    os.makedirs("/run/sshd", exist_ok=True)
    for folder in (work, web):
        folder.chmod(0o755)


def _commands(work: Path) -> Iterator[tuple[str, list[str], str]]:
    """Name, command and user (empty: this one) of each server."""
    yield "http", ["/usr/sbin/nginx", "-c", f"{work}/nginx.conf"], ""
    yield "ssh", ["/usr/sbin/sshd", "-D", "-e", "-f", f"{work}/sshd.conf"], ""
    yield "rsync", ["rsync", "--daemon", "--no-detach", f"--config={work}/rsyncd.conf"], ""
    yield (
        "redis",
        ["redis-server", "--bind", HOST, "--port", "6379", "--save", "", "--protected-mode", "no"],
        "",
    )
    yield "memcached", ["memcached", "-u", "nobody", "-l", HOST], ""
    yield "iperf", ["iperf3", "-s", "-B", HOST], ""
    yield (
        "echo",
        ["socat", "-t", "60", f"TCP-LISTEN:7000,bind={HOST},fork,reuseaddr,backlog=512", "SYSTEM:cat"],
        "",
    )
    yield "ftp", ["/usr/sbin/vsftpd", f"{work}/vsftpd.conf"], ""
    yield from _databases(work)


def _databases(work: Path) -> Iterator[tuple[str, list[str], str]]:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    with suppress(KeyError, subprocess.CalledProcessError, FileNotFoundError, IndexError):
        home, user = work / "postgres", str(pwd.getpwnam("postgres").pw_uid)
        home.mkdir()
        shutil.chown(home, "postgres")
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        initdb = [*become, f"{folders[-1]}/initdb", "-D", f"{home}/data", "-A", "trust"]
        subprocess.run(initdb, check=True, capture_output=True)
        with (home / "data" / "pg_hba.conf").open("a") as file:
            file.write("host all all 198.18.0.0/16 trust\n")
        settings = [
            "-c",
            f"listen_addresses={HOST}",
            "-c",
            f"unix_socket_directories={home}",
            "-c",
            "fsync=off",
        ]
        yield "postgres", [f"{folders[-1]}/postgres", "-D", f"{home}/data", *settings], user
    with suppress(subprocess.CalledProcessError, FileNotFoundError):
        home = work / "mysql"
        install = [
            "mariadb-install-db",
            "--no-defaults",
            f"--datadir={home}",
            "--auth-root-authentication-method=normal",
        ]
        subprocess.run([*install, "--user=root", "--skip-test-db"], check=True, capture_output=True)
        own = [
            f"--datadir={home}",
            f"--bind-address={HOST}",
            f"--socket={home}/socket",
            "--skip-grant-tables",
        ]
        yield "mysql", ["/usr/sbin/mariadbd", "--no-defaults", "--user=root", *own], ""
