"""A run of the tool: ``weir tcp measure`` at the source, ``weir tcp serve`` at the destination."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from typing import Any

from weirtcp.checking import INTERVAL, LASTS, seconds
from weirtcp.settings import PORT, Settings

END_S = 5.0
"""For the last data, and for the diagnosis."""
_AGAIN_S = 0.5
_NOBODY = 4
"""Exit code of ``weir`` where nobody answers."""
_MOST_REPORTS = 20_000


def lasts_s(spec: dict[str, Any], settings: Settings) -> float:
    """How long a run takes in all."""
    return settings.setup_s + seconds(spec.get("duration", LASTS)) + END_S


def source(spec: dict[str, Any], served: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Measure, and return the result; ``served`` is what the destination's ``participant-data`` said.

    The destination may need a moment to start, so a refused connection is tried again for a while.
    """
    port, token = int(served.get("port", PORT)), str(served.get("_token", ""))
    give_up = time.monotonic() + settings.setup_s
    # The run would otherwise stay in the run store of the user.
    with tempfile.TemporaryDirectory(prefix="weirtcp-") as store:
        command = [settings.weir, "--store", store, *_measure(spec, port)]
        while True:
            code, out, err = _run(command, token, lasts_s(spec, settings))
            if code != _NOBODY or time.monotonic() > give_up:
                break
            time.sleep(_AGAIN_S)
    diags = f"{' '.join(command)}\n{err}".strip()
    document = _last(out)
    if code != 0 or "directions" not in document:
        said = document.get("error", {}).get("message") or err.strip() or f"weir ended with exit code {code}"
        return {"succeeded": False, "error": said, "diags": diags}
    return {**_result(document), "diags": diags}


def destination(spec: dict[str, Any], served: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Serve one transfer, and return how it went."""
    most_s = seconds(spec.get("duration", LASTS)) + END_S
    command = [
        *(settings.weir, "tcp", "serve", "--json", "--transfers", "1", "--max-clients", "1"),
        *("--bind", _everywhere(), "--port", str(served["port"]), "--max-time", f"{most_s:.3f}s"),
        *_buffer(spec, receives=not spec.get("reverse")),
    ]
    code, out, err = _run(command, str(served["_token"]), lasts_s(spec, settings))
    document = _last(out)
    diags = f"{' '.join(command)}\n{err}".strip()
    if document.get("transfers") == 1 and not document.get("broken_off"):
        return {"succeeded": True, "diags": diags}
    said = document.get("error", {}).get("message") if code else ""
    return {"succeeded": False, "error": said or "no transfer was completed in time", "diags": diags}


def _measure(spec: dict[str, Any], port: int) -> list[str]:
    duration, interval = seconds(spec.get("duration", LASTS)), seconds(spec.get("interval", INTERVAL))
    connections = spec.get("connections", 1)
    # Each report of each kernel is kept until the end.
    every = min(max(0.01, 2 * connections * duration / _MOST_REPORTS), interval)
    made = [
        *("tcp", "measure", "--json", "--capture", "none", "--duration", f"{duration:.3f}s"),
        *("--port", str(port), "--connections", str(connections)),
        *("--every", f"{every * 1e3:.3f}ms", "--period", f"{interval * 1e3:.3f}ms"),
    ]
    for option, key in (("--rate", "bandwidth"), ("--target", "target")):
        if key in spec:
            made += [option, f"{spec[key]}bit/s"]
    if "congestion" in spec:
        made += ["--congestion", spec["congestion"]]
    if "block" in spec:
        made += ["--block", f"{spec['block']}B"]
    if spec.get("reverse"):
        made.append("--reverse")
    made += _buffer(spec, receives=bool(spec.get("reverse")))
    return [*made, "--", spec["dest"]]


def _buffer(spec: dict[str, Any], *, receives: bool) -> list[str]:
    """The option for the socket buffer of an end that receives, or that sends."""
    if "buffer" not in spec:
        return []
    return ["--option", f"{'SO_RCVBUF' if receives else 'SO_SNDBUF'}={spec['buffer']}"]


def _result(document: dict[str, Any]) -> dict[str, Any]:
    """What ``weir tcp measure --json`` printed, as the test class describes results."""
    (whole,) = document["directions"]
    spread = whole["rtt_us"]
    kernel = [each for each in document["diagnoses"] if each["source"] == "kernel"]
    return {
        "schema": 1,
        "succeeded": True,
        "throughput-bits": whole["throughput_bps"],
        "received-bytes": whole["received_bytes"],
        "seconds": whole["seconds"],
        "retransmits": whole["retransmissions"],
        "rtt-us": None if spread is None else dict(zip(("min", "mean", "max"), spread)),  # noqa: B905 (3.9)
        "intervals": [_interval(row, document["since_1970_ns"]) for row in document["axis"]],
        "diagnosis": [
            {
                "connection": each["connection"],
                "sentence": each["sentence"],
                "causes": [
                    {key: found[key] for key in ("cause", "share", "confidence", "sentence")}
                    for found in each["findings"]
                ],
            }
            for each in kernel
        ],
    }


def _interval(row: dict[str, Any], start_ns: int) -> dict[str, Any]:
    """A row of the axis; its columns are called ``sender.rtt_us``, or ``0.sender.rtt_us``."""

    def told(name: str) -> list[Any]:
        return [value for key, value in row.items() if key.endswith(name) and value is not None]

    bits, again = told("receiver.throughput_bps"), told("sender.total_retrans")
    times, windows = told("sender.rtt_us"), told("sender.snd_cwnd")
    return {
        "start-s": (row["time_ns"] - start_ns) / 1e9,
        "throughput-bits": sum(bits) if bits else None,
        "retransmits": sum(again) if again else None,
        "rtt-us": sum(times) / len(times) if times else None,
        "cwnd-segments": sum(windows) if windows else None,
    }


def _run(command: list[str], token: str, most_s: float) -> tuple[int, str, str]:
    """Exit code and output of a program; one that takes too long is ended by Ctrl-C."""
    environment = {**os.environ, "WEIR_TCP_TOKEN": token} if token else dict(os.environ)
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
    ) as process:
        try:
            out, err = process.communicate(timeout=most_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            try:
                out, err = process.communicate(timeout=END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
    return process.returncode, out, err


def _last(out: str) -> dict[str, Any]:
    """The document that is all of ``out``, or its last line."""
    for text in (out, (out.strip().splitlines() or [""])[-1]):
        try:
            found = json.loads(text)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    return {}


def _everywhere() -> str:
    """All addresses of this host."""
    return "::" if socket.has_ipv6 and os.path.exists("/proc/net/if_inet6") else "0.0.0.0"
