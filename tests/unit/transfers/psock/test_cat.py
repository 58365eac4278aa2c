"""``weir psock cat``: both ways at once."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys

from weirlab._engine import ParallelListener
from weirlab.base.errors import InputError, TrialError
from weirlab.transfers.psock.options import SessionOptions

from .conftest import Weir

CAT = (sys.executable, "-m", "weirlab", "psock", "cat")


def test_both_directions_are_carried_and_ended() -> None:
    question, answer = random.Random(1).randbytes(700_001), random.Random(2).randbytes(1_100_001)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*CAT, "--listen", "--port", "0", "--memory", "64KiB"], **pipes) as server:
        assert server.stderr is not None
        port = server.stderr.readline().strip().rpartition(b":")[2].decode()
        assert server.stdin is not None
        with subprocess.Popen([*CAT, "127.0.0.1", "--port", port, "--json"], **pipes) as client:
            assert client.stdin is not None
            # Its end is carried while the other direction goes on.
            client.stdin.write(question)
            client.stdin.close()
            client.stdin = None
            assert server.stdout is not None
            assert server.stdout.read(len(question)) == question
            server.stdin.write(answer)
            server.stdin.close()
            server.stdin = None
            got, said = client.communicate()
        _, told = server.communicate()
    assert (server.returncode, client.returncode) == (0, 0)
    assert got == answer
    assert b"1.10 MB sent and 700 kB received" in told
    found = json.loads(said)
    assert (found["kind"], found["sent_bytes"], found["received_bytes"]) == ("psock cat", 700_001, 1_100_001)
    assert found["sent_sha256"] == hashlib.sha256(question).hexdigest()
    assert found["received_sha256"] == hashlib.sha256(answer).hexdigest()


def test_a_session_that_breaks_off_is_an_error() -> None:
    listener = ParallelListener([("127.0.0.1", 0)], SessionOptions().how().plain())
    command = [*CAT, "127.0.0.1", "--port", str(listener.addresses[0][1])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as client:
        while (accepted := listener.accept(0.1)) is None:
            pass
        accepted[0].abort()
        assert client.stderr is not None
        assert b"closed before all data" in client.stderr.read()
    assert client.returncode == TrialError.exit_code


def test_one_end_listens_and_the_other_one_connects(weir: Weir) -> None:
    for wrong in ([], ["--listen", "localhost"], ["localhost", "--bind", "127.0.0.1"]):
        answer = weir("psock", "cat", *wrong)
        assert answer.code == InputError.exit_code
        assert "--listen" in answer.err
