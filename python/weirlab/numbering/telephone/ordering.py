"""Sends a telephone an order and prints its answers, with the standard library only; see ``settings.py``.

The arguments are the telephone's Unix socket and the order. It ends when the order is done; the order ends
with it.
"""

import socket
import sys


def main(path: str, order: str) -> int:
    """Run until the telephone closes the connection; returns 1 if there is none."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as telephone:
            telephone.connect(path)
            telephone.sendall(order.encode() + b"\n")
            for line in telephone.makefile():
                print(line, end="", flush=True)
    except OSError as error:
        print(f"no telephone at {path}: {error.strerror}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
