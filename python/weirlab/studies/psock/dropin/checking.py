"""What ``weir doctor`` says of ``weir psock run``."""

from __future__ import annotations

from typing import Final

from weirlab.errors import WeirError
from weirlab.lab.doctor import Finding
from weirlab.studies.psock.dropin.group import check_root, control_group
from weirlab.studies.psock.dropin.options import PORT
from weirlab.studies.psock.options import LOOPBACK, SessionOptions

_REMEDY: Final = (
    "use Linux 5.14 or newer with CONFIG_CGROUP_BPF, and control groups of version 2; the other commands of "
    "weir psock need neither"
)


def finding() -> Finding:
    """Tried as ``weir psock run`` does, with a group that no process is in; nothing stays behind."""
    name, left = "psock run", list[str]()
    try:
        from weirlab._engine import ParallelRelay

        check_root()
        with control_group(left.append) as group, group.opened() as descriptor:
            how = SessionOptions().how().plain()
            routes = [(None, LOOPBACK, PORT)]
            ParallelRelay(descriptor, routes, how, only=["any"], fallback=False, most=1).stop()
    except ImportError as error:
        return Finding(name, False, str(error), "build the engine: make build", essential=False)
    except WeirError as error:
        detail, _, remedy = str(error).partition("; ")
        return Finding(name, False, detail, remedy or _REMEDY, essential=False)
    if left:
        return Finding(name, False, "; ".join(left), "weir lab clean", essential=False)
    detail = "BPF programs at a control group of version 2 redirect connections"
    return Finding(name, True, detail, essential=False)
