"""What ``weir doctor`` says of ``weir psock run``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

from weirlab.base.errors import WeirError
from weirlab.lab.finding import Finding
from weirlab.transfers.psock.dropin import program
from weirlab.transfers.psock.dropin.options import BPF, PORT, SECCOMP, By
from weirlab.transfers.psock.options import LOOPBACK, SessionOptions

_REMEDIES: Final[dict[By, str]] = {
    BPF: "use Linux 5.14 or newer with CONFIG_CGROUP_BPF, and control groups of version 2; or --by seccomp",
    SECCOMP: "use Linux 5.14 or newer with CONFIG_SECCOMP_FILTER, in a container with pidfd_getfd(2)",
}
_DESCRIPTORS: Final = 64
_DETAILS: Final[dict[By, str]] = {
    BPF: "BPF programs at a control group of version 2 redirect connections",
    SECCOMP: "a seccomp filter redirects connections, without root",
}


def findings() -> tuple[Finding, ...]:
    """Each way tried as ``weir psock run`` does, with a program that ends at once; nothing stays behind."""
    return _finding(BPF), _finding(SECCOMP)


def _finding(by: By) -> Finding:
    name, left = f"psock run --by {by}", list[str]()
    try:
        with program.signals_held(), _tried(by, left.append) as made:
            code = program.run(made.process, made.look)
            made.relay.stop()
    except ImportError as error:
        return Finding(name, False, str(error), "build the engine: make build", essential=False)
    except WeirError as error:
        detail, _, remedy = str(error).partition("; ")
        return Finding(name, False, detail, remedy or _REMEDIES[by], essential=False)
    if left or code:
        why = "; ".join(left) or f"a program that does nothing ended with {code}"
        return Finding(name, False, why, "weir lab clean", essential=False)
    return Finding(name, True, _DETAILS[by], essential=False)


def _tried(by: By, complain: Callable[[str], None]) -> AbstractContextManager[Any]:
    from weirlab.transfers.psock.dropin.redirecting import redirected

    given = {
        "routes": [(None, LOOPBACK, PORT)],
        "how": SessionOptions().how().plain(),
        "only": ["any"],
        "excepted": [],
        "fallback": False,
        "most": 1,
    }
    nothing = program.UserProgram(program.located("true"), ("true",), "", _DESCRIPTORS)
    return redirected(by, nothing, given, complain)
