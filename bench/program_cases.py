"""The programs of bench/programs.py: what is run, and what must be the same.

A script's standard output is compared; it leaves out times and rates. ``{H}`` has the servers, ``{O}`` has
none, ``{S}`` does not answer; ``{W}`` is the folder of files, and each port has its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class ClientProgram:
    """A script for ``bash -c``, what it needs, and how it may end with plain TCP."""

    name: str
    script: str
    needs: tuple[str, ...]
    servers: tuple[str, ...] = ("http",)
    codes: tuple[int, ...] = (0,)
    ways: tuple[str, ...] = ("bpf", "seccomp")
    """That carry its connections."""


ERRORS: Final = r"""
import errno, select, socket, sys
for address, port in zip(sys.argv[1::2], map(int, sys.argv[2::2])):
    for is_blocking in (True, False):
        made = socket.socket()
        made.setblocking(is_blocking)
        number = made.connect_ex((address, port))
        if number == errno.EINPROGRESS:
            poll = select.epoll()
            poll.register(made, select.EPOLLOUT)
            [(_, events)] = poll.poll()
            number = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        print(address, port, errno.errorcode.get(number, number))
"""

ASYNCIO: Final = r"""
import asyncio, hashlib, sys

async def one(number):
    reader, writer = await asyncio.open_connection(sys.argv[1], int(sys.argv[2]))
    writer.write(bytes([number % 256]) * 3000)
    writer.write_eof()
    found = await reader.read()
    writer.close()
    return found

async def main():
    found = await asyncio.gather(*map(one, range(200)))
    print(len(found), hashlib.sha256(b"".join(found)).hexdigest())

asyncio.run(main())
"""

TIMEOUT: Final = r"""
import socket, sys, time
begun = time.monotonic()
try:
    socket.create_connection((sys.argv[1], 80), timeout=1.5)
except TimeoutError:
    print("timed out", 1.35 < time.monotonic() - begun < 1.65)
"""

JAVA: Final = r"""
import java.net.*;
import java.security.*;
import java.util.*;
import java.util.concurrent.*;

public class Get {
    public static void main(String[] words) throws Exception {
        ExecutorService all = Executors.newFixedThreadPool(40);
        List<Future<String>> found = new ArrayList<>();
        for (int number = 0; number < 40; number++) {
            String url = words[0] + "/file" + number;
            found.add(all.submit(() -> {
                MessageDigest digest = MessageDigest.getInstance("SHA-256");
                try (var stream = new URL(url).openStream()) { digest.update(stream.readAllBytes()); }
                return HexFormat.of().formatHex(digest.digest());
            }));
        }
        for (var each : found) System.out.println(each.get());
        all.shutdown();
        try { new Socket(words[1], 9); } catch (ConnectException e) { System.out.println(e.getMessage()); }
    }
}
"""

GO: Final = r"""
package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
)

func main() {
	found := make([]chan string, 40)
	for number := range found {
		found[number] = make(chan string)
		go func(number int) {
			answer, err := http.Get(fmt.Sprintf("%s/file%d", os.Args[1], number))
			if err != nil {
				found[number] <- err.Error()
				return
			}
			defer answer.Body.Close()
			all, _ := io.ReadAll(answer.Body)
			found[number] <- fmt.Sprintf("%x", sha256.Sum256(all))
		}(number)
	}
	for _, each := range found {
		fmt.Println(<-each)
	}
	_, err := net.Dial("tcp", os.Args[2]+":9")
	fmt.Println(errors.Is(err, syscall.ECONNREFUSED))
}
"""

NODE: Final = r"""
const crypto = require("crypto"), http = require("http"), net = require("net");
const [url, host] = process.argv.slice(2);
const get = (number) => new Promise((done, failed) => http.get(`${url}/file${number}`, (answer) => {
  const digest = crypto.createHash("sha256");
  answer.on("data", (data) => digest.update(data)).on("end", () => done(digest.digest("hex")));
}).on("error", failed));
Promise.all([...Array(40).keys()].map(get)).then((all) => {
  console.log(all.join("\n"));
  net.connect(9, host).on("error", (error) => console.log(error.code));
});
"""

URING: Final = r"""
#include <arpa/inet.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct io_uring ring;

static int done(struct io_uring_sqe *sqe)
{
	struct io_uring_cqe *cqe;
	int result;

	(void)sqe;
	io_uring_submit(&ring);
	io_uring_wait_cqe(&ring, &cqe);
	result = cqe->res;
	io_uring_cqe_seen(&ring, cqe);
	return result;
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
	char out[5000], in[5000];
	int fd = socket(AF_INET, SOCK_STREAM, 0), result, have = 0;
	struct io_uring_sqe *sqe;

	(void)argc;
	io_uring_queue_init(8, &ring, 0);
	inet_pton(AF_INET, argv[1], &to.sin_addr);
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_connect(sqe, fd, (struct sockaddr *)&to, sizeof(to));
	result = done(sqe);
	printf("connect %d\n", result);
	if (result)
		return 1;
	memset(out, 'x', sizeof(out));
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_send(sqe, fd, out, sizeof(out), MSG_WAITALL);
	printf("send %d\n", done(sqe));
	while (have < (int)sizeof(in)) {
		sqe = io_uring_get_sqe(&ring);
		io_uring_prep_recv(sqe, fd, in, sizeof(in), 0);
		result = done(sqe);
		if (result <= 0)
			break;
		have += result;
	}
	printf("received %d\n", have);
	return 0;
}
"""

PERL: Final = r"""
use IO::Socket::INET;
my ($host, $port) = @ARGV;
my $made = IO::Socket::INET->new(PeerAddr => "$host:$port", Timeout => 5) or die;
print $made "GET /small.txt HTTP/1.0\r\n\r\n";
print((<$made>)[-1]);
IO::Socket::INET->new(PeerAddr => "$host:9", Timeout => 5) or print $! + 0, "\n";
"""

RUBY: Final = r"""
require "digest"
require "net/http"
puts Digest::SHA256.hexdigest(Net::HTTP.get(URI(ARGV[0] + "/data.bin")))
begin
  TCPSocket.new(ARGV[1], 9)
rescue => error
  puts error.class
end
"""

PHP: Final = r"""<?php
echo hash("sha256", file_get_contents($argv[1] . "/data.bin")), "\n";
@stream_socket_client("tcp://" . $argv[2] . ":9", $number, $text, 5);
echo $number, "\n";
"""

SOURCES: Final = {
    "get.pl": (PERL, ""),
    "get.rb": (RUBY, ""),
    "get.php": (PHP, ""),
    "errors.py": (ERRORS, ""),
    "many.py": (ASYNCIO, ""),
    "timeout.py": (TIMEOUT, ""),
    "get.js": (NODE, ""),
    "Get.java": (JAVA, "javac -d {W} {W}/Get.java"),
    "get.go": (GO, "go build -o {W}/get-go {W}/get.go"),
    "uring.c": (URING, "cc -O2 -o {W}/uring {W}/uring.c -luring"),
}
"""Files that are made beside those of the servers, and the command that builds each."""

_WEB: Final = "http://{H}:{http}"
_SHA: Final = "| sha256sum"
_SSH: Final = "{W}/ssh"

PROGRAMS: Final = (
    ClientProgram("curl", f"curl -sS {_WEB}/data.bin {_SHA}; exit ${{{{PIPESTATUS[0]}}}}", ("curl",)),
    ClientProgram(
        "curl -Z, 40 files",
        f"curl -sS -Z --parallel-max 40 -o 'f#1' '{_WEB}/file[0-39]'; cat f* {_SHA}",
        ("curl",),
    ),
    ClientProgram("curl, TLS", f"curl -sSk https://{{H}}:{{https}}/data.bin {_SHA}", ("curl",), ("https",)),
    ClientProgram(
        "curl, a port that is closed",
        "curl -sS http://{H}:9/ 2>&1 | sed 's/after [0-9]* ms/after T/'; exit ${{PIPESTATUS[0]}}",
        ("curl",),
        (),
        (7,),
    ),
    ClientProgram(
        "curl --retry-connrefused",
        "curl -s --retry 2 --retry-delay 1 --retry-connrefused -w '%{{http_code}} %{{num_retries}}' http://{H}:9/",
        ("curl",),
        (),
        (7,),
    ),
    ClientProgram(
        "curl --connect-timeout 2",
        "curl -s --connect-timeout 2 http://{S}/; code=$?; echo $code; exit $code",
        ("curl",),
        (),
        (28,),
    ),
    ClientProgram(
        "curl, two addresses, the first refuses",
        "curl -sS --resolve two:{http}:{O},{H} -w '%{{remote_ip}}' -o d http://two:{http}/data.bin; "
        "sha256sum d",
        ("curl",),
    ),
    ClientProgram("wget", f"wget -q -O - {_WEB}/data.bin {_SHA}", ("wget",)),
    ClientProgram(
        "wget, a port that is closed",
        "wget -q -t 1 -O - http://{H}:9/; code=$?; echo $code; exit $code",
        ("wget",),
        (),
        (4,),
    ),
    ClientProgram(
        "git, HTTP",
        f"git clone -q {_WEB}/repository.git r; git -C r rev-parse HEAD; cat r/files/* {_SHA}",
        ("git",),
    ),
    ClientProgram(
        "git, ssh",
        f"GIT_SSH={_SSH} git clone -q ssh://root@{{H}}/{{W}}/web/repository.git r; cat r/files/* {_SHA}",
        ("git", "ssh"),
        ("ssh",),
    ),
    ClientProgram(
        "rsync",
        f"rsync -a rsync://{{H}}:{{rsync}}/web/ r/; find r -type f | sort | xargs cat {_SHA}",
        ("rsync",),
        ("rsync",),
    ),
    ClientProgram(
        "rsync over ssh",
        f"rsync -a -e {_SSH} root@{{H}}:{{W}}/web/ r/; find r -type f | sort | xargs cat {_SHA}",
        ("rsync", "ssh"),
        ("ssh",),
    ),
    ClientProgram(
        "ssh", f"head -c 2000000 /dev/zero | {_SSH} root@{{H}} 'sha256sum; exit 5'", ("ssh",), ("ssh",), (5,)
    ),
    ClientProgram(
        "scp",
        f"scp -q -S {_SSH} root@{{H}}:{{W}}/web/data.bin .; sha256sum data.bin",
        ("scp", "ssh"),
        ("ssh",),
    ),
    ClientProgram(
        "sftp",
        f"echo 'get {{W}}/web/data.bin' | sftp -q -S {_SSH} root@{{H}} >/dev/null; sha256sum data.bin",
        ("sftp", "ssh"),
        ("ssh",),
    ),
    ClientProgram("psql", "psql -h {H} -U postgres -At -f {W}/queries.sql", ("psql",), ("postgres",)),
    ClientProgram(
        "psql, two hosts, the first refuses",
        "psql 'host={O},{H} user=postgres' -At -f {W}/queries.sql",
        ("psql",),
        ("postgres",),
    ),
    ClientProgram(
        "psql, two hosts, the first is silent",
        "psql 'host={S},{H} user=postgres connect_timeout=2' -At -f {W}/queries.sql",
        ("psql",),
        ("postgres",),
    ),
    ClientProgram(
        "pgbench -c 20",
        "export PGHOST={H} PGUSER=postgres; pgbench -q -i -s 1 postgres 2>/dev/null; "
        "pgbench -n -c 20 -j 2 -t 5 postgres 2>&1 | grep processed",
        ("pgbench",),
        ("postgres",),
    ),
    ClientProgram(
        "redis-cli", "redis-cli -h {H} set a 1; redis-cli -h {H} get a", ("redis-cli",), ("redis",)
    ),
    ClientProgram(
        "redis-cli, a port that is closed",
        "redis-cli -h {H} -p 9 ping 2>&1; exit ${{PIPESTATUS[0]}}",
        ("redis-cli",),
        (),
        (1,),
    ),
    ClientProgram(
        "redis-benchmark -c 50",
        "redis-benchmark -h {H} -c 50 -n 2000 -t set,get --csv | cut -d, -f1",
        ("redis-benchmark",),
        ("redis",),
    ),
    ClientProgram("iperf3", "iperf3 -c {H} -n 20M -J | grep -c sum_received", ("iperf3",), ("iperf",)),
    ClientProgram("iperf3 -R", "iperf3 -c {H} -n 20M -R -J | grep -c sum_received", ("iperf3",), ("iperf",)),
    ClientProgram(
        "iperf3 --bidir",
        'iperf3 -c {H} --bidir -t 2 -J | python3 -c \'import json, sys; end = json.load(sys.stdin)["end"]; '
        'print(end["sum_received"]["bytes"] > 0, end["sum_received_bidir_reverse"]["bytes"] > 0)\'',
        ("iperf3",),
        ("iperf",),
    ),
    ClientProgram(
        "ab -c 200",
        f"ab -q -n 1000 -c 200 {_WEB}/small.txt | grep -E 'Complete|Failed|Non-2xx|HTML transferred'",
        ("ab",),
    ),
    ClientProgram(
        "wrk -c 200",
        f"wrk -t 2 -c 200 -d 2 {_WEB}/small.txt | grep -Ec 'Socket errors|Non-2xx'; true",
        ("wrk",),
    ),
    ClientProgram("Java, 40 threads", f"java -cp {{W}} Get {_WEB} {{H}}", ("java", "Get.java")),
    ClientProgram("Go, 40 goroutines", f"{{W}}/get-go {_WEB} {{H}}", ("get.go",)),
    ClientProgram("Node, 40 requests", f"node {{W}}/get.js {_WEB} {{H}}", ("node",)),
    ClientProgram("Python asyncio, 200", "python3 {W}/many.py {H} {echo}", ("python3",), ("echo",)),
    ClientProgram(
        "Python, errors of connect()", "python3 {W}/errors.py {H} {http} {H} 9 {O} 80", ("python3",)
    ),
    ClientProgram("Python, a time-out of 1.5 s", "python3 {W}/timeout.py {S}", ("python3",), ()),
    ClientProgram(
        "socat",
        f"head -c 1000000 {{W}}/web/data.bin | socat -t 20 - TCP:{{H}}:{{echo}} {_SHA}",
        ("socat",),
        ("echo",),
    ),
    ClientProgram(
        "nc", f"head -c 1000000 {{W}}/web/data.bin | nc -N {{H}} {{echo}} {_SHA}", ("nc",), ("echo",)
    ),
    ClientProgram("nc -z", "for port in {http} 9 10; do nc -z -v -n {H} $port 2>&1; echo $?; done", ("nc",)),
    ClientProgram(
        "nc -z -w 2, silent", "nc -z -w 2 -n {S} 80; code=$?; echo $code; exit $code", ("nc",), (), (1,)
    ),
    ClientProgram(
        "/dev/tcp",
        "exec 3<>/dev/tcp/{H}/{http}; printf 'GET /small.txt HTTP/1.0\\r\\n\\r\\n' >&3; tail -1 <&3",
        ("bash",),
    ),
    ClientProgram(
        "/dev/tcp, a port that is closed",
        "(exec 3<>/dev/tcp/{H}/9) 2>&1; code=$?; echo $code; exit $code",
        ("bash",),
        (),
        (1,),
    ),
    ClientProgram(
        "lftp",
        f"lftp -e 'mirror -P 5 . r; quit' {_WEB}/; lftp -e 'cat data.bin; quit' {_WEB}/ {_SHA}",
        ("lftp",),
    ),
    ClientProgram(
        "lftp, FTP", f"lftp -e 'cat data.bin; quit' ftp://{{H}}:{{ftp}}/ {_SHA}", ("lftp",), ("ftp",)
    ),
    ClientProgram(
        "tnftp", "tnftp -a -V -o d ftp://{H}:{ftp}/data.bin >/dev/null; sha256sum d", ("tnftp",), ("ftp",)
    ),
    ClientProgram(
        "mariadb",
        'mariadb -h {H} -u root --skip-ssl -N -e "select md5(repeat(0x78, 1000000))"',
        ("mariadb",),
        ("mysql",),
    ),
    ClientProgram(
        "openssl s_client",
        "printf 'GET /small.txt HTTP/1.0\\r\\n\\r\\n' | "
        "openssl s_client -quiet -connect {H}:{https} 2>/dev/null | tail -1",
        ("openssl",),
        ("https",),
    ),
    ClientProgram("aria2c -x 8", f"aria2c -q -x 8 -k 1M {_WEB}/data.bin; sha256sum data.bin", ("aria2c",)),
    ClientProgram("axel -n 8", f"axel -q -n 8 -o d {_WEB}/data.bin; sha256sum d", ("axel",)),
    ClientProgram("busybox wget", f"busybox wget -q -O - {_WEB}/data.bin {_SHA}", ("busybox",)),
    ClientProgram("telnet", "(echo; sleep 0.2) | telnet {H} 9 2>&1; code=$?; exit 0", ("telnet",), ()),
    ClientProgram(
        "memcached, by nc",
        "printf 'set a 0 0 3\\r\\nabc\\r\\nget a\\r\\nquit\\r\\n' | nc {H} {memcached}",
        ("nc",),
        ("memcached",),
    ),
    ClientProgram(
        "siege -c 50",
        f"siege -q -b -c 50 -r 5 {_WEB}/small.txt 2>&1 | "
        "grep -E '\"(transactions|failed_transactions)\"'; true",
        ("siege",),
    ),
    ClientProgram(
        "httperf",
        "httperf --server {H} --port {http} --uri /small.txt --num-conns 100 --rate 100 | "
        "grep -E '^(Total|Reply status|Errors)' | sed 's/ test-duration.*//'",
        ("httperf",),
    ),
    ClientProgram("perl", "perl {W}/get.pl {H} {http}", ("perl",)),
    ClientProgram("ruby", f"ruby {{W}}/get.rb {_WEB} {{H}}", ("ruby",)),
    ClientProgram("php", f"php {{W}}/get.php {_WEB} {{H}}", ("php",)),
    ClientProgram(
        "io_uring (C)", "{W}/uring {H} {echo}; {W}/uring {H} 9; true", ("uring.c",), ("echo",), (0,), ("bpf",)
    ),
)
