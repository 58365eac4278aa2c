"""Command lines made of the options that there are, with values that nobody should give."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, get_args, get_origin

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weirlab.cli.program.app import commands_of, parts

from .conftest import Weir, sound

NASTY: Final = (
    "", " ", "nan", "inf", "-inf", "1e308", "-1", "0", "1e-320", "1e400", "1e18", "9" * 5000, "1" + "0" * 18,
    "\x1b]0;x\x07", "\u202ex", "x\udcff", "x" * 3000, "'\"`$(", "%s{0}", "-", "--", "²", "١٢", "1_000",
    "0x10", "1,,2", ",", ":", "1:2:3", "nan:1", "1:nan", "1e308:1", "@", "%", "nan%", "1e400%", "1e999kpps",
    "1e-9pps", "99999999999999999999:1", "64:0", "poisson:9-1", "1e400ms", "0ms", "null", "[", "last",
    "a\nb", "a/b",
)  # fmt: skip
PLAUSIBLE: Final = (
    "1", "2", "100", "0.01", "0.5", "10kpps", "max", "50%", "64", "1518", "imix", "g711", "g729:40ms", "last",
    "1:50,99:50", "0,100", "64,512", "rtp", "100ms", "64MiB", "1:20kpps", "0.005:20kpps", "0.005:2",
    "p99<1ms", "loss<1%", "mos>=4", "rate>=1kpps", "last~1", "p99=30%", "1000", "1Gbit/s", "soft",
    "fixed:60ms", "frame=64", "throughput,latency",
    "10", "iptables",
)  # fmt: skip
FILES: Final = (
    "m.json", "s.yaml", "calls.pcap", "store", "missing.yaml", "missing/x", "new.html", "new.csv", "new.json",
    "x" * 300, "x\udcff", "\x1b[31m", "", ".", "rules.txt",
)  # fmt: skip

STARTS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "trial": (("--lab", "sim", "--rate", "10kpps", "--duration", "0.01", "--warmup", "0"), ()),
    "profile": (
        ("--lab", "sim", "--duration", "0.001", "--warmup", "0", "--quick", "--repetitions", "1"),
        (),
    ),
    "search": (("--lab", "sim", "--duration", "0.001", "--warmup", "0"), ()),
    "rfc2544": (("--lab", "sim", "--duration", "0.001", "--warmup", "0"), ()),
    "calls": (("--calls", "2", "--duration", "0.1"), ("--send", "--lab", "sim", "--duration", "0.1")),
    "quality": (("calls.pcap",), ()),
    "trace": (("calls.pcap",), ()),
    "tap": (("--between", "a", "b", "--write", "tap.pcapng"), ()),
    "log": (("--interface", "a", "--write", "log.pcapng"), ()),
    "run": (("s.yaml", "--lab", "netns"), ()),
    "fit": (("last",), ()),
    "predict": (("m.json", "--rate", "100kpps"), ("last", "--rate", "100kpps"), ()),
    "plan": (("m.json", "--rules", "100"), ("last", "--calls", "10", "--codec", "g711"), ()),
    "verify": (("last",), ()),
    "transients": (("last",), ()),
    "report": (("missing", "--out", "new.html"), ("last", "--out", "new.html")),
    "show": (("last",), ()),
    "compare": (("last~1", "last"), ("last", "last"), ()),
    "export": (("last", "--out", "exported"), ()),
}
"""Command lines to begin with, so that more than the first mistake is found."""

SERVICES: Final = {"web"}
"""Commands that need nothing to begin with, and then only Ctrl-C ends; their own tests feed them mistakes."""

COMMANDS: Final = {
    name: command
    for part in parts(only_own=True)
    for name, command in commands_of(part).items()
    if not hasattr(command, "commands") and name not in SERVICES
}


def values(parameter: Any) -> st.SearchStrategy[str]:
    """Texts for one option or argument."""
    kind = getattr(parameter.type_descriptor, "annotation", str)
    kind = get_args(kind)[0] if get_origin(kind) is list else kind
    choices = tuple(map(str, get_args(kind)))
    likely = choices or (FILES if kind is Path else PLAUSIBLE)
    return st.sampled_from(likely) | st.sampled_from(NASTY)


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """A command with some of its options."""
    name = draw(st.sampled_from(sorted(COMMANDS)))
    parameters = [p for p in COMMANDS[name].params if p.name != "help"]
    arguments = list(draw(st.sampled_from(STARTS.get(name, ((),)))))
    for parameter in draw(st.lists(st.sampled_from(parameters), min_size=1, max_size=4)):
        names = [option for option in parameter.opts if option.startswith("-")]
        if names:
            arguments.append(draw(st.sampled_from([*names, *parameter.secondary_opts])))
        if not getattr(parameter, "is_flag", False):
            arguments += [draw(values(parameter)) for _ in range(max(parameter.nargs, 1))]
    return [name, *arguments]


@settings(max_examples=120, suppress_health_check=list(HealthCheck))
@given(arguments=command_lines())
def test_whatever_options_say_the_answer_is_sound(weir: Weir, run_id: str, arguments: list[str]) -> None:
    sound(weir(*arguments))


@settings(max_examples=30)
@given(
    arguments=st.lists(st.sampled_from((*NASTY, *COMMANDS, "--json", "--store", "--help", "lab")), max_size=4)
)
def test_whatever_stands_in_place_of_a_command_the_answer_is_sound(weir: Weir, arguments: list[str]) -> None:
    sound(weir(*arguments))
