"""The monitoring system's end of a management session; a separate program, see the package docstring.

Arguments: address and port to connect to, and the CPU. Prints ``ready`` when the first report is
complete; from then on reads and discards. Standard input is used as in ``agent``.
"""

import os
import select
import socket
import sys
import time

PATIENCE_S = 10.0
CHUNK_BYTES = 1 << 16


def main(address: str, port: str, cpu: str) -> int:
    """Read reports until the agent disconnects or standard input ends."""
    os.sched_setaffinity(0, {int(cpu)})
    with socket.create_connection((address, int(port)), timeout=PATIENCE_S) as agent:
        first = agent.makefile("rb", buffering=0)
        header = b""
        while not header.endswith(b"\n"):
            header += first.read(1) or sys.exit("the agent closed the connection")
        missing = int(header.split()[1])
        while missing > 0:
            missing -= len(agent.recv(min(missing, CHUNK_BYTES)) or sys.exit("the first report was cut off"))
        print("ready", flush=True)
        while True:
            ready = select.select([sys.stdin, agent], [], [])[0]
            if sys.stdin in ready:
                if not sys.stdin.readline():
                    return 0
                print(time.process_time_ns(), flush=True)
            elif not agent.recv(CHUNK_BYTES):
                return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
