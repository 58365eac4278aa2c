"""No command that takes ``--require`` ignores a requirement: it judges it, or refuses it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer

from weirlab.cli.program.app import app
from weirlab.devices.planning import study
from weirlab.lab.dut.rulesets.source import RulesetSource
from weirlab.lab.equivalence.proof import EquivalenceProof
from weirlab.model import DeviceModels, fit_all, save_devices
from weirlab.rules import Advice, advise
from weirlab.testing import FakeBed, queue

from ..calls.quality.captures import frames, pcap, talk
from ..conftest import Weir

Beds = Callable[..., list[FakeBed]]

SENT = ("--calls", "5", "--duration", "1", "--send", "--lab", "sim")
CASES: dict[str, list[tuple[str, ...]]] = {
    "trial": [
        ("--rate", "100kpps", "--duration", "0.5", "--warmup", "0"),
        ("--rate", "100kpps", "--duration", "0.5", "--warmup", "0", "--repetitions", "2"),
    ],
    "search": [("--loss", "0"), ("--loss", "0,0.5%", "--rules", "0,100")],
    "calls": [SENT, ("--calls", "5")],
    "quality": [("calls.pcap",)],
    "choose": [
        ("--profiles", "device.json", "--calls", "50", "--certainty", "50%", "--extrapolate"),
        ("--calls", "50"),
    ],
    "library compare": [
        ("nftables", "--calls", "50", "--certainty", "50%", "--extrapolate"),
        ("none", "--calls", "50"),
    ],
    "plan": [
        ("--ruleset", "after.rules"),
        ("--ruleset", "after.rules", "--before", "before.rules"),
        ("device.json", "--ruleset", "after.rules"),
        ("device.json", "--ruleset", "after.rules", "--before", "before.rules", "--rate", "10kpps"),
        *(
            ("device.json", *given, "--certainty", "50%", "--extrapolate", "--find", find)
            for find, *given in (
                ("rate", "--rules", "10"),
                ("calls", "--rules", "10", "--codec", "g711"),
                ("rules", "--rate", "10kpps"),
                ("rules", "--rate", "10kpps", "--ruleset", "after.rules"),
                ("frame", "--rate", "10kpps", "--rules", "10"),
                *((find, "--rate", "10kpps", "--rules", "10") for find in ("delay", "loss", "device")),
            )
        ),
        (),
    ],
}  # fmt: skip
"""By command: arguments with which it works without privileges, and some without which it cannot."""
VALUES = {"rate|ndr|pdr|throughput.*": ">=1kpps", "mos.*": ">=4", "calls|rules": ">=1000", "loss": "<0.1%"}
"""Values by patterns of quantities; of all others, ``<1ms``."""


def commands(command: Any, *names: str) -> Iterator[str]:
    """Every command that takes requirements."""
    if not hasattr(command, "list_commands"):
        if any("--require" in each.opts for each in command.params):
            yield " ".join(names)
        return
    context = typer.Context(command)
    for name in command.list_commands(context):
        yield from commands(command.get_command(context, name), *names, name)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that the arguments name; proofs of orders succeed without packets."""
    monkeypatch.chdir(tmp_path)
    rules = "".join(f"[{n}:1] -A FORWARD -p udp -m udp --dport {n} -j ACCEPT\n" for n in range(1, 9))
    for name in ("before.rules", "after.rules"):
        Path(name).write_text(f"*filter\n:FORWARD DROP [0:0]\n{rules}COMMIT\n")
    save_devices(
        [DeviceModels("old", fit_all(queue.profile(queue.QueueDevice(), packets=500)))], Path("device.json")
    )
    pcap(tmp_path / "calls.pcap", frames(talk(50)))

    def proven(source: RulesetSource, where: str) -> tuple[Advice, EquivalenceProof]:
        return advise(source.path_of_packets(elements=False), where), EquivalenceProof(1)

    monkeypatch.setattr(study, "proven_advice", proven)


def test_every_command_with_requirements_is_tried_here() -> None:
    assert sorted(commands(typer.main.get_command(app))) == sorted(CASES)


def unjudged(weir: Weir, arguments: Sequence[str], limits: Collection[str]) -> set[str]:
    """Which of ``limits`` are refused; all others must be judged, and set the exit code."""
    answer = weir(*arguments, *(word for limit in limits for word in ("--require", limit)), "--json")
    if answer.code == 2:
        alone = [{limit} for limit in limits]
        return (
            set(limits) if len(limits) == 1 else set().union(*(unjudged(weir, arguments, x) for x in alone))
        )
    assert answer.code in (0, 7, 9), answer.err
    verdicts = {each["requirement"]: each["verdict"] for each in answer.json["requirements"]}
    assert set(limits) <= verdicts.keys()
    expected = 9 if "not met" in verdicts.values() else 7 if "undecided" in verdicts.values() else 0
    assert answer.code == expected
    return set()


@pytest.mark.parametrize("command", CASES)
def test_a_requirement_is_judged_or_refused(weir: Weir, bed: Beds, files: None, command: str) -> None:
    if command in ("trial", "search"):
        bed()
    error = weir(*command.split(), *CASES[command][0], "--require", "colour<1ms").err
    names = re.findall(r"[\w.@%-]+", " ".join(error.split()).rsplit("accepted are ", 1)[1])
    limits = {name + next((v for p, v in VALUES.items() if re.fullmatch(p, name)), "<1ms") for name in names}
    judged: set[str] = set()
    for arguments in CASES[command]:
        judged |= limits - unjudged(weir, (*command.split(), *arguments), limits)
    assert judged == limits
