"""Begins a program in a control group; a program of its own, with the standard library only.

Arguments: folder of the group, number of the process that started this one, name of the user that the program
belongs to (empty: the same as here), how many descriptors it may have, its path, its name, its arguments.

It takes the program's place: the number of its process is the program's. The kernel kills it when whoever
started it ends, since nobody carries its connections then.
"""

import ctypes
import os
import pwd
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1
CANNOT_RUN = 126
"""As of a shell (POSIX, 2.8.2)."""


def main(group: str, parent: str, user: str, descriptors: str, program: str, *arguments: str) -> int:
    """Only returns where the program cannot be run."""
    with open(f"{group}/cgroup.procs", "w") as file:
        file.write("0")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(descriptors), most))
    if user:
        become(user)
    # Behind the change of user, which takes it back (prctl(2)).
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        return CANNOT_RUN
    # What Python has set, and what was put off until here.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    try:
        os.execv(program, arguments)
    except OSError as error:
        print(f"weir: {program} cannot be run: {error.strerror}", file=sys.stderr)
    return CANNOT_RUN


def become(user: str) -> None:
    """Take on a user's rights and home."""
    entry = pwd.getpwnam(user)
    os.initgroups(entry.pw_name, entry.pw_gid)
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)
    os.environ.update(HOME=entry.pw_dir, USER=entry.pw_name, LOGNAME=entry.pw_name, SHELL=entry.pw_shell)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
