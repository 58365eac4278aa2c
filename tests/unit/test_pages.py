"""The commands on the pages of the documentation: all are understood, and those that may are run.

Commands that need root, another host, hardware or many minutes are only parsed; :data:`NOT_RUN` says which
these are. The others are run in the order of their page, in a folder with the files that pages name.
"""

from __future__ import annotations

import glob
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import pytest
import typer
from typer.testing import CliRunner

from weirlab.cli.program.app import app
from weirlab.jobs.models import model_file
from weirlab.store import Store

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted(ROOT.glob("docs/*.md")),
    *sorted(ROOT.glob("docs/decisions/*.md")),
    *sorted(ROOT.glob("integrations/*/README.md")),
    *sorted(ROOT.glob("examples/*/README.md")),
]

FENCES: Final = ("```", "```sh", "```console", "```yaml")

NOT_RUN: Final = {
    "needs root": (
        r"--(dut|between|send|measure) |--send$|^trial --ruleset"
        r"|^(tap|link|log|lab|failover|capacity|search|check|cable|calibrate)\b"
        r"|^plan .*--reordered|^ipsec endpoints"
        r"|^voice (prove|load|lab|install)|^psock run|^doctor --require-quiet"
        r"|^run (call-capacity|failover|slow-transfer|parallel-sockets(-full|-fair)?)$|^reproduce ubik"
    ),
    "needs another host": (
        r"^tcp (send|measure|serve)|^psock (send|serve|proxy|cat)|^worker|--cluster |^voice import .*--server"
    ),
    "needs connections of other programs": r"^tcp (why|watch)",
    "serves until it is interrupted": r"^web\b",
    "takes minutes": r"^(profile|verify|choose [^-]|run firewall-rules|demo|ipsec cost|reproduce \S+-)",
    "needs a key": r"--sign(ers)? ",
    "needs a package of its own": r"^run many-flows",
}
"""Why commands are not run here, each with a pattern of their lines."""

CODES: Final = {r"^doctor": (0, 3), r"^(plan|compare|choose|quality|library compare)": (0, 7, 9)}
"""Exit codes of commands whose answer depends on what is compared; those of all others are 0."""


MODELS: Final = {
    "last": ("old.json", "devices.json", "firewall.model.json", "line.json"),
    "library:nftables": ("nftables.json", "rules.json"),
    "library:esp": ("esp.json", "aes.json", "chacha.json", "tunnel.json"),
    "library:wireguard-go": ("wireguard.json",),
}
"""Model files that pages name, by where they come from."""

RUNS: Final = {"RUN1": "last~1", "RUN2": "last", "RULES_RUN": "last", "TUNNEL_RUN": "last~1"}
"""What stands for the names of runs on pages."""

RULES: Final = """\
*filter
:FORWARD DROP [0:0]
[700:42000] -A FORWARD -s 10.0.0.0/8 -d 172.16.0.0/12 -p tcp --dport 22 -j ACCEPT
[9000:1800000] -A FORWARD -s 198.18.0.0/16 -d 198.19.0.0/16 -j ACCEPT
COMMIT
"""


@dataclass(frozen=True)
class Example:
    """A command on a page."""

    page: Path
    line: int
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}: weir {shlex.join(self.words)}"

    @property
    def text(self) -> str:
        return " ".join(self.words)

    @property
    def reason(self) -> str | None:
        """Why it is not run."""
        return next((reason for reason, pattern in NOT_RUN.items() if re.search(pattern, self.text)), None)


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """The lines of blocks that may hold commands, with their numbers; continued lines are one."""
    fence, begun = "", ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fence = "" if fence else line
        elif fence in FENCES or (not fence and line.startswith("    ")):
            whole = begun + line.strip()
            begun = whole[:-1] if whole.endswith("\\") else ""
            if not begun:
                yield number, whole


def commands(line: str) -> Iterator[tuple[str, ...]]:
    """The arguments of each call of weir in a line of shell, of a console or of a job in YAML."""
    line = re.sub(r"^(\$ |(- )?(run: )?)", "", line)
    if not re.search(r"(^|[\s;|&])weir\s", line):
        return
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for token in [*lexer, ";"]:
        if set(token) <= set("();<>|&"):
            while words and re.match(r"[A-Z_]+=", words[0]):
                words.pop(0)
            if words[:1] == ["weir"]:
                yield tuple(words[1:])
            words = []
        else:
            words.append(token)


def examples() -> list[Example]:
    return [
        Example(page, number, words)
        for page in PAGES
        for number, line in blocks(page.read_text(encoding="utf-8"))
        for words in commands(line)
    ]


def mentions() -> list[Example]:
    """Commands in sentences, which may lack arguments."""
    found = []
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for match in re.finditer(r"`(?:[A-Z_]+=\S+ )?weir ([^`]+)`", text):
            words = tuple(shlex.split(match[1]))
            found.append(Example(page, text.count("\n", 0, match.start()) + 1, words))
    return found


def parse(example: Example) -> None:
    """Raise what is wrong with the words of a command, without running it."""
    command: Any = typer.main.get_command(app)
    context, words = typer.Context(command, info_name="weir"), list(example.words)
    while hasattr(command, "get_command") and words and not words[0].startswith("-"):
        name = words.pop(0)
        found = command.get_command(context, name)
        if found is None:
            raise click.UsageError(f"there is no command {name}")
        command = found
        if hasattr(command, "get_command"):
            context = typer.Context(command, info_name=name, parent=context)
    if not hasattr(command, "get_command"):
        command.make_context(name, words, parent=context)


def faults(found: list[Example], *passed: str) -> list[str]:
    """What is not understood; ``passed`` are the names of errors that are none here."""
    wrong = []
    for example in found:
        try:
            parse(example)
        except click.exceptions.Exit:
            pass  # --help and --version
        except Exception as error:
            if type(error).__name__ not in passed:
                wrong.append(f"{example}\n    {error}")
    return wrong


def test_every_command_on_every_page_is_understood() -> None:
    found = examples()
    assert len(found) > 200
    assert faults(found) == []


def test_every_command_in_a_sentence_exists_with_its_options() -> None:
    found = mentions()
    assert len(found) > 300
    assert faults(found, "MissingParameter", "BadOptionUsage") == []


def test_every_reason_not_to_run_a_command_holds_for_one() -> None:
    reasons = {example.reason for example in examples()}
    assert reasons == {None, *NOT_RUN}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, fitted_once: None) -> Path:
    """A folder with the files that pages name, and a store with two profiles, the newest one fitted."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("WEIR_STORE", "store")
        for words in ("profile --lab sim --quick", "profile --lab sim --quick", "fit last"):
            assert CliRunner().invoke(app, words.split()).exit_code == 0, words
        store = Store(folder / "store")
        for source, names in MODELS.items():
            for name in names:
                shutil.copy(model_file(store, source), name)
        for words in ("calls --calls 5 --write capture.pcap", "calls --calls 5 --write link.pcapng"):
            assert CliRunner().invoke(app, words.split()).exit_code == 0, words
        for name in ("plan.yaml", "new.yaml", "mine.yaml"):
            text = CliRunner().invoke(app, ["voice", "example", "federation"]).stdout
            Path(name).write_text(text, encoding="utf-8")
    capture = ROOT / "examples/captures/overseas.pcapng.zst"
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "archive").mkdir()
    (folder / "plan").mkdir()
    for name in ("slow.pcapng", "log-1.pcapng.zst", "archive/one.pcap", "archive/two.pcap"):
        shutil.copy(capture, folder / name)
    for name in ("my.rules", "before.rules", "after.rules"):
        (folder / name).write_text(RULES, encoding="utf-8")
    for page, name in (("campaigns", "firewalls.yaml"), ("chain", "path.yaml")):
        text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
        block = re.search(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        assert block is not None
        (folder / name).write_text(block[1], encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    "page",
    sorted({example.page for example in examples() if example.reason is None}),
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_the_commands_of_a_page_run_one_after_another(
    page: Path, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(prepared, tmp_path / "folder", symlinks=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("WEIR_STORE", "store")
    monkeypatch.setenv("HOME", str(folder))
    for example in (each for each in examples() if each.page == page and each.reason is None):
        result = CliRunner().invoke(app, list(expanded(example.words)), input="correct horse\n")
        usual = (codes for pattern, codes in CODES.items() if re.search(pattern, example.text))
        assert result.exit_code in next(usual, (0,)), f"{example}\n{result.output}"


def expanded(words: tuple[str, ...]) -> Iterator[str]:
    """Words as a shell hands them over."""
    for word in words:
        word = RUNS.get(word, word)
        yield from glob.glob(word) or [str(Path(word).expanduser()) if word.startswith("~") else word]
