"""Commands about stored runs and captures, and how their answers are compared with what they once were."""

from __future__ import annotations

import itertools
import json
import math
import re
import shlex
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from typer.testing import CliRunner

import weirlab
from weirlab.cli.program.app import app

HERE: Final = Path(__file__).resolve().parent
ANSWERS: Final = HERE / "answers"
INPUTS: Final = HERE / "inputs.tar.xz"
"""A store, captures and models, in the formats that they had when they were made."""
TRANSFERS: Final = HERE / "inputs-tcp.tar.xz"
"""Runs of a kind that came later: one of a version that kept no trials of it, one of the first that did."""
CLOSE: Final = 1e-9
"""How far two numbers that are the same may be apart, as a share: machines round sums differently."""
FITTED: Final = {"fit": 1e-4}
"""The same for what a fit finds: where it ends, processors differ by a trifle of the standard error."""
VOLATILE: Final = frozenset({"elapsed_s", "elapsed_ns", "fitted", "generated"})
"""Keys of times that are another one whenever a command is run."""
SPELLED: Final = re.compile(r"\d+(?:[.,]\d+)*")

PROFILE: Final = "20260105-080000-profile-0001"
SLOWER: Final = "20260105-080100-profile-0002"
TRIAL: Final = "20260105-080200-trial-0003"
STEPS: Final = "20260105-080300-trial-0004"
VERIFY: Final = "20260105-080400-verify-0005"
CALIBRATE: Final = "20260105-080500-calibrate-0006"
SEARCH: Final = "20260105-080600-search-0007"
RFC2544: Final = "20260105-080700-rfc2544-0008"
CALLS: Final = "20260105-080800-calls-0009"
CAPACITY: Final = "20260105-080900-capacity-000a"
FAILOVER: Final = "20260105-081000-failover-000b"
MONITOR: Final = "20260105-081100-monitor-000c"
TCP_EARLIER: Final = "20260105-081200-tcp-000d"
TCP: Final = "20260105-081300-tcp-000e"
VOICE: Final = "20260105-081200-voice-000d"
PARALLEL: Final = "20260105-081400-parallel-000f"
VOICE_LOAD: Final = "20260105-081500-voice_load-0010"
ENDPOINTS: Final = "20260105-081600-endpoints-0011"
COMPARISON: Final = "20260105-081700-comparison-0012"
REPRODUCTION: Final = "20260105-081800-reproduction-0013"
ESP: Final = "20260105-081900-esp-0014"
SERIES: Final = "20260105-082800-series-001d"
SIMULATION: Final = "20260105-082900-simulation-001e"
CAMPAIGN: Final = "20260105-083000-campaign-001f"
CAMPAIGN_STEPS: Final = tuple(f"20260105-083{minute}00-series-002{minute}" for minute in range(1, 7))

RUNS: Final = (
    PROFILE, SLOWER, TRIAL, STEPS, VERIFY, CALIBRATE, SEARCH, RFC2544, CALLS, CAPACITY, FAILOVER, MONITOR,
    VOICE,
)  # fmt: skip
ADDED: Final[Mapping[str, tuple[str, ...]]] = {
    "later": (PARALLEL, VOICE_LOAD),
    "latest": (ENDPOINTS,),
    "newest": (COMPARISON, REPRODUCTION),
    "costs": (ESP,),
    "listed": (SERIES,),
    "swept": (SIMULATION,),
    "matrix": (CAMPAIGN,),
}
"""Runs of kinds that came later still, by the names of their archives, in the order in which they came."""
ADDED_RUNS: Final = tuple(itertools.chain.from_iterable(ADDED.values()))


def _kind(run: str) -> str:
    return run.split("-")[2]


COMMANDS: Final = {
    "runs": "runs",
    "runs-of-a-kind": "runs --kind profile",
    **{f"show-{_kind(run)}": f"show {run}" for run in RUNS if run not in (SLOWER, STEPS)},
    **{
        f"report-{_kind(run)}": f"report {run} --out report.html"
        for run in RUNS
        if run not in (SLOWER, STEPS, CALIBRATE)
    },
    "show-tcp": f"show {TCP}",
    "show-tcp-earlier": f"show {TCP_EARLIER}",
    "report-tcp": f"report {TCP} --out report.html",
    "report-tcp-earlier": f"report {TCP_EARLIER} --out report.html",
    **{f"show-{_kind(run)}": f"show {run}" for run in ADDED_RUNS},
    **{f"report-{_kind(run)}": f"report {run} --out report.html" for run in ADDED_RUNS},
    "export": f"export {FAILOVER} --format csv --out exported",
    "fit": f"fit {PROFILE}",
    "predict": f"predict {PROFILE} --rate 250kpps --frame 214 --rules 200",
    "predict-poisson": "predict devices.json --device new --rate 150kpps --rules 400 --arrivals poisson",
    "predict-extrapolated": f"predict {PROFILE} --rate 100kpps --rules 5000 --extrapolate",
    "predict-step": f"predict {PROFILE} --rate 300kpps --step 0.002:600kpps --duration 0.004",
    "verify": f"verify {PROFILE}",
    "transients": f"transients {STEPS} --model {PROFILE}",
    "plan-rules": "plan devices.json --device old --rate 200kpps --require 'p99<1ms'",
    "plan-rate": "plan devices.json --device new --given rules=400 --given frame=214 --find rate",
    "plan-device": "plan devices.json --rules 400 --rate 100kpps --require 'p99<1ms' --certainty 99%",
    "plan-calls": f"plan {PROFILE} --codec g711 --calls 300 --rules 400",
    "choose": "choose --profiles devices.json --rules 400 --calls 300 --require 'p99<1ms' --extrapolate",
    "ask": f"ask 'select role, count(*) n, sum(received) r from trials group by role order by 1' {PROFILE}",
    "compare": f"compare {PROFILE} {SLOWER}",
    "compare-with-margin": f"compare {SLOWER} {PROFILE} --margin 30% --certainty 99%",
    "trace": "trace transfer.pcap.gz",
    "trace-connection": "trace transfer.pcap.gz --connection 0 --from 0 --to 1",
    "trace-voice": "trace calls.pcap.gz",
    "quality": "quality calls.pcap.gz",
    "quality-fixed": "quality calls.pcap.gz --delay 40 --jitter-buffer fixed:40ms --require 'mos>=4'",
    "calls": "calls --calls 1000 --codec g711",
    "calls-trunk": "calls --calls 50 --codec gsm --transport iax2-trunk --no-rtcp",
    "ipsec-bytes": "ipsec bytes --codec g729",
    "voice-route": "voice route +420224355289 --plan federation --date 2026-01-31",
    "voice-check": "voice check --plan federation --date 2026-01-31",
    "voice-zones": "voice zones --plan cesnet --date 2026-01-31",
}
"""What is asked, by the name of the answer's file; ``--json`` and the store are added."""


def archive_of(name: str) -> Path:
    """The archive with the runs that ``ADDED`` has under ``name``."""
    return HERE / f"inputs-{name}.tar.xz"


def unpacked(folder: Path) -> Path:
    """The inputs, in ``folder``."""
    for path in (INPUTS, TRANSFERS, *map(archive_of, ADDED)):
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")
    return folder


def answer(name: str, folder: Path) -> dict[str, Any]:
    """What the command says in ``folder``, the current one, without what depends on time and place."""
    arguments = ["--store", str(folder / "store"), *shlex.split(COMMANDS[name]), "--json"]
    result = CliRunner().invoke(app, arguments)
    document = json.loads(result.stdout) if result.stdout else result.stderr
    places = {str(folder): "FOLDER", str(Path(weirlab.__file__).parent): "WEIRLAB"}
    return {"code": result.exit_code, "document": steady(document, places)}


def steady(value: Any, places: Mapping[str, str]) -> Any:
    """``value`` without volatile times, and with names for the paths of ``places``."""
    match value:
        case dict():
            return {key: steady(item, places) for key, item in value.items() if key not in VOLATILE}
        case list():
            return [steady(item, places) for item in value]
        case str():
            for path, name in places.items():
                value = value.replace(path, name)
    return value


def kept(name: str) -> dict[str, Any]:
    """What the command once said."""
    found = json.loads((ANSWERS / f"{name}.json").read_text())
    assert isinstance(found, dict)
    return found


def differences(before: Any, after: Any, where: str = "", *, close: float = CLOSE) -> Iterator[str]:
    """What is not the same any more, each with its place. Fields may have come since."""
    match before, after:
        case dict(), dict():
            for key, item in before.items():
                if key not in after:
                    yield f"{where}.{key}: is gone, was {_short(item)}"
                else:
                    yield from differences(item, after[key], f"{where}.{key}", close=close)
        case list(), list():
            if len(before) != len(after):
                yield f"{where}: {len(after)} items, were {len(before)}"
            for at, (one, other) in enumerate(zip(before, after, strict=False)):
                yield from differences(one, other, f"{where}[{at}]", close=close)
        case _ if not _same(before, after, close):
            yield f"{where}: {_short(after)}, was {_short(before)}"


def additions(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """Fields that have come since."""
    match before, after:
        case dict(), dict():
            for key, item in after.items():
                if key not in before:
                    yield f"{where}.{key}: is new, {_short(item)}"
                else:
                    yield from additions(before[key], item, f"{where}.{key}")
        case list(), list():
            for at, (one, other) in enumerate(zip(before, after, strict=False)):
                yield from additions(one, other, f"{where}[{at}]")


def _same(before: Any, after: Any, close: float) -> bool:
    if isinstance(before, bool) or isinstance(after, bool) or before is None or after is None:
        return before is after
    if isinstance(before, int | float) and isinstance(after, int | float):
        return math.isclose(before, after, rel_tol=close, abs_tol=1e-12)
    if isinstance(before, str) and isinstance(after, str) and " " in before:
        # A sentence may be worded in another way; the numbers in it are the same.
        return SPELLED.findall(before) == SPELLED.findall(after)
    return bool(before == after)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:117]}..."
