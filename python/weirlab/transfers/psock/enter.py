"""Begins a program in a control group or under a seccomp filter; it needs the standard library alone.

Arguments: folder of the group (empty: none), the filter (empty: none), number of the process that started
this one, name of the user that the program belongs to (empty: the same as here), how many descriptors it may
have, its path, its name, its arguments. The filter: a socket's descriptor, seccomp(2)'s number, instructions.

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
PR_SET_NO_NEW_PRIVS = 38
SECCOMP_SET_MODE_FILTER = 1
SPEC_ALLOW, NEW_LISTENER, WAIT_KILLABLE_RECV = 1 << 2, 1 << 3, 1 << 5
"""SECCOMP_FILTER_FLAG_*: the filter is not there to confine anybody; its listener; only signals that kill
end a call that is being answered (Linux 5.19)."""
INSTRUCTION_BYTES = 8
CANNOT_RUN = 126
"""As of a shell (POSIX, 2.8.2)."""


def main(
    group: str, watch: str, parent: str, user: str, descriptors: str, program: str, *arguments: str
) -> int:
    """Only returns where the program cannot be run."""
    if group:
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
    if watch and not watched(*watch.split(":")):
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


class Filter(ctypes.Structure):
    """``struct sock_fprog`` (linux/filter.h)."""

    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def watched(channel: str, number: str, code: str) -> bool:
    """Go under a filter, hand its listener over, and wait until somebody answers; False: nobody does."""
    import socket

    libc = ctypes.CDLL(None, use_errno=True)
    instructions = bytes.fromhex(code)
    given = Filter(len(instructions) // INSTRUCTION_BYTES, instructions)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    with socket.socket(fileno=int(channel)) as other:
        for flags in (SPEC_ALLOW | NEW_LISTENER | WAIT_KILLABLE_RECV, SPEC_ALLOW | NEW_LISTENER):
            words = (
                ctypes.c_long(int(number)),
                ctypes.c_ulong(SECCOMP_SET_MODE_FILTER),
                ctypes.c_ulong(flags),
            )
            listener = libc.syscall(*words, ctypes.byref(given))
            if listener >= 0:
                break
        else:
            other.sendall(b"%d" % ctypes.get_errno())
            return False
        socket.send_fds(other, [b"listener"], [listener])
        # Nobody but the one who answers may hold it: else calls would wait for an answer when he has ended.
        os.close(listener)
        return bool(other.recv(16))


def become(user: str) -> None:
    """Take on a user's rights and home."""
    entry = pwd.getpwnam(user)
    os.initgroups(entry.pw_name, entry.pw_gid)
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)
    os.environ.update(HOME=entry.pw_dir, USER=entry.pw_name, LOGNAME=entry.pw_name, SHELL=entry.pw_shell)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
