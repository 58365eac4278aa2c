"""The program of an ESP tunnel's gateway: it carries packets until it is killed.

Its only argument is a JSON file, which it removes because it contains keys.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, Final

from weirlab.base.errors import WeirError

REKEY: Final = signal.SIGUSR1
"""Makes a gateway switch to another SPI and other keys for sending."""


def main(path: str) -> None:
    """Run the gateway that the file at ``path`` describes."""
    from weirlab._engine import run_esp_gateway

    with open(path, encoding="utf-8") as file:
        arguments = json.load(file)
    os.unlink(path)
    try:
        run_esp_gateway(**_understood(arguments), is_rekey_wanted=_asked())
    except (WeirError, ValueError) as error:
        sys.exit(str(error))


def counter_names() -> tuple[str, ...]:
    """Names of the counters that a gateway keeps, in the order of its file."""
    from weirlab._engine import ESP_COUNTERS

    return ESP_COUNTERS


def _asked() -> Callable[[], bool]:
    """Return a function that says whether the signal has arrived since its last call."""
    came = False

    def note(*_: object) -> None:
        nonlocal came
        came = True

    def asked() -> bool:
        nonlocal came
        was, came = came, False
        return was

    signal.signal(REKEY, note)
    return asked


def _understood(arguments: dict[str, Any]) -> dict[str, Any]:
    """``arguments`` with bytes and tuples, as the engine takes them."""
    name, own, neighbour, mtu_bytes = arguments["outside"]
    outside = (name, bytes.fromhex(own), bytes.fromhex(neighbour), mtu_bytes)
    keys = {
        way: (spi, *map(bytes.fromhex, secrets))
        for way in ("sending", "receiving")
        for spi, *secrets in [arguments[way]]
    }
    natt = None if arguments["natt"] is None else tuple(arguments["natt"])
    iv_key = bytes.fromhex(arguments["iv_key"])
    others = {"outside": outside, "ends": tuple(arguments["ends"]), "natt": natt, "iv_key": iv_key}
    return arguments | others | keys


if __name__ == "__main__":
    main(*sys.argv[1:])
