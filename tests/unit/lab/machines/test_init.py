"""The first process of a machine, without namespaces."""

from __future__ import annotations

import os
import selectors
from pathlib import Path

import pytest

from weirlab.lab.machines import init


def test_a_pipe_that_an_event_of_the_same_moment_closed_is_not_read() -> None:
    first = init.InitProcess({})
    pipes = [os.pipe() for _ in range(2)]
    heard = []

    def hear(own: int, other: int) -> None:
        heard.append(own)
        first.selector.unregister(other)

    (one, _), (two, _) = pipes
    first.selector.register(one, selectors.EVENT_READ, lambda: hear(one, two))
    first.selector.register(two, selectors.EVENT_READ, lambda: hear(two, one))
    for _, write in pipes:
        os.write(write, b"x")
    first.react()
    assert len(heard) == 1
    first.selector.close()
    for descriptor in (*pipes[0], *pipes[1], first.home):
        os.close(descriptor)


@pytest.mark.skipif(
    not Path("/proc/self/autogroup").exists(), reason="this kernel does not group by sessions"
)
def test_a_nice_value_counts_for_the_whole_session() -> None:
    child = os.posix_spawn("/bin/sleep", ["sleep", "60"], dict(os.environ), setsid=True)
    try:
        init.prefer(child, 5)
        assert Path(f"/proc/{child}/autogroup").read_text().endswith(" nice 5\n")
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
    init.prefer(child, 5)
