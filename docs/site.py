"""Builds the documentation site (``make docs``): these pages, and a reference made from the code.

python docs/site.py TOOLS    assembles build/docs, builds build/docs/site with the programs in TOOLS, and
                             checks its links and its spelling; the exit code is 1 if something is wrong
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from posixpath import relpath
from typing import Any, Final
from urllib.parse import urlsplit

import typer
from sitelinks import broken_links, localise
from typer.main import get_command

from weirlab.cli.options.values import shape
from weirlab.cli.program import failures
from weirlab.cli.program.app import app, parts
from weirlab.cli.program.help import HELP_OPTIONS
from weirlab.numbering.plan import json_schema as plan_schema
from weirlab.studies.scenarios import json_schema

ROOT: Final = Path(__file__).resolve().parent.parent
DOCS: Final = ROOT / "docs"
RUNS: Final = ROOT / "bench/runs"
WORK: Final = ROOT / "build/docs"
SITE: Final = WORK / "site"

SECTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "Start": {"index": "What Weir is", "tutorial": "Ten minutes without root", "gallery": "Reports"},
    "How to": {
        "planning": "Choose a device, and plan",
        "profile": "Measure what your rules cost",
        "rules": "Put rules in a better order",
        "wired": "Test your own firewall",
        "remote": "Set its rules over SSH",
        "chain": "Measure a chain of devices",
        "ci": "Check a change in CI",
        "trace": "Find why a capture is slow",
        "tcp": "Find why a transfer is slow now",
        "quality": "Find out whether calls were bad",
        "calls": "Make calls",
        "capacity": "Find how many calls a device carries",
        "failover": "Measure a failover",
        "ipsec": "Find what IPsec costs calls",
        "voice-routing": "Check a numbering plan",
        "voice-proof": "Prove it by calls",
        "voice-zones": "Share a numbering plan",
        "psock-run": "Speed a program up over several paths",
        "link-emulator": "Emulate a link",
        "link-monitor": "Record a link",
        "campaigns": "Compare many devices",
        "reproduce": "Repeat a publication",
        "library": "Use and share profiles",
        "simulate": "Use a measured device in a simulator",
        "web": "Use Weir in a browser",
        "python": "Use Weir from Python",
        "add-a-device": "Add a device",
        "add-a-study": "Add a kind of measurement",
    },
    "Reference": dict.fromkeys(
        (
            "commands", "scenario-keys", "plan-keys", "causes", "tables", "glossary", "abbreviations",
            "devices", "tunnels", "vm-lab", "store", "terminal", "model-format", "psock", "psock-c",
            "psock-protocol", "tcp-watch", "security", "changelog",
        ),
        "",
    ),
    "Explanation": dict.fromkeys(
        (
            "measuring", "limits", "benchmarks", "engine", "accuracy", "search", "adaptive", "model",
            "transients", "diagnosis", "endpoints", "parallel-sockets", "architecture",
        ),
        "",
    ),
}  # fmt: skip
"""Pages by section, with their titles where those are not the pages' own; a page that is not named here is at
the end of the reference."""

COPIED: Final = {
    "README.md": "index",
    "CHANGELOG.md": "changelog",
    "ARCHITECTURE.md": "architecture",
    "python/weirlab/report/glossary.md": "glossary",
}
"""Files outside of this folder that are pages, too."""

_LINK: Final = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_EXHIBIT: Final = re.compile(r"^\| ([^|]+) (\| [^|]+ \| `weir ([^`|]+)` \|)$", re.MULTILINE)
_ABBREVIATION: Final = re.compile(r"^\| \*\*(.+?)\*\* \| (.+) \|$", re.MULTILINE)
_NOT_PAGES: Final = {"pypi"}


def assemble() -> None:
    """Write the pages, and the configuration with their list, to :data:`WORK`."""
    shutil.rmtree(WORK, ignore_errors=True)
    pages = WORK / "pages"
    pages.mkdir(parents=True)
    (pages / "decisions").mkdir()
    shutil.copytree(DOCS / "images", pages / "images")
    shutil.copytree(RUNS, pages / "benchmarks", ignore=shutil.ignore_patterns("README.md"))
    sources = {path.stem: path for path in DOCS.glob("*.md") if path.stem not in _NOT_PAGES}
    sources |= {name: ROOT / path for path, name in COPIED.items()}
    sources |= {f"decisions/{path.stem}": path for path in sorted((DOCS / "decisions").glob("*.md"))}
    sources |= {f"benchmarks/{path.parent.name}/index": path for path in sorted(RUNS.glob("*/README.md"))}
    places = {path: f"{name}.md" for name, path in sources.items()}
    places |= {path.parent: place for path, place in places.items() if path.parent.parent == RUNS}
    texts = {
        name: _relinked(path.read_text(encoding="utf-8"), path, places) for name, path in sources.items()
    }
    texts |= {"commands": commands(), "scenario-keys": scenario_keys()}
    texts["gallery"] = _EXHIBIT.sub(
        lambda row: f"| [{row[1]}](gallery/{_slug(row[1])}.html) {row[2]}", texts["gallery"]
    )
    tips = [
        f"*[{word}]: {_plain(meaning)}" for word, meaning in _ABBREVIATION.findall(texts["abbreviations"])
    ]
    for name, text in texts.items():
        # A search for a subject finds its page, not the runs that measured it.
        head = "---\nsearch:\n  exclude: true\n---\n" if name.startswith("benchmarks/") else ""
        lines = [head + text, "", *([] if name == "abbreviations" else tips), ""]
        (pages / f"{name}.md").write_text("\n".join(lines), encoding="utf-8")
    for name, schema in (("scenario", json_schema()), ("voice", plan_schema())):
        (pages / f"{name}.schema.json").write_text(json.dumps(schema, indent=1), encoding="utf-8")
    (WORK / "zensical.toml").write_text(
        (DOCS / "site.toml")
        .read_text(encoding="utf-8")
        .replace("[project]\n", f"[project]\nnav = {_nav(texts)}\n", 1),
        encoding="utf-8",
    )


def draw() -> None:
    """Write the reports that the page of reports lists, with the commands that it shows."""
    folder = WORK / "pages/gallery"
    folder.mkdir()
    for question, _, words in _EXHIBIT.findall((DOCS / "gallery.md").read_text(encoding="utf-8")):
        out = folder / f"{_slug(question)}.html"
        subprocess.run(
            [sys.executable, "-m", "weirlab", *shlex.split(words), "--out", out],
            cwd=ROOT,
            env=os.environ | {"WEIR_STORE": str(WORK / "store")},
            stdout=subprocess.DEVNULL,
            check=False,  # the code is that of the answer, which may be no
        )
        if not out.exists():
            raise SystemExit(f"docs/gallery.md: weir {words} wrote no report")


def _slug(words: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", words.lower()))


def _plain(text: str) -> str:
    """``text`` of Markdown without its links and signs."""
    return re.sub(r"[`*]", "", _LINK.sub(r"\2", text))


def _nav(sources: Iterable[str]) -> str:
    """The list of pages; runs of benchmarks are not in it, but behind links."""
    placed = {name for names in SECTIONS.values() for name in names}
    rest = sorted(name for name in sources if name not in placed and "/" not in name)
    sections = {
        **SECTIONS,
        "Reference": {**SECTIONS["Reference"], **dict.fromkeys(rest, "")},
        "Decisions": dict.fromkeys((name for name in sources if name.startswith("decisions/")), ""),
    }
    items = []
    for title, pages in sections.items():
        entries = [
            f"{{ {json.dumps(words)} = {json.dumps(f'{name}.md')} }}" if words else json.dumps(f"{name}.md")
            for name, words in pages.items()
            if name in sources
        ]
        items.append(f"  {{ {json.dumps(title)} = [{', '.join(entries)}] }},")
    return "\n".join(["[", *items, "]"])


def _relinked(text: str, path: Path, places: Mapping[Path, str]) -> str:
    """``text`` with links to other pages; of a link to a file that is not on the site, the words are left."""
    here = os.path.dirname(places[path])

    def link(match: re.Match[str]) -> str:
        image, words, target = match.groups()
        if urlsplit(target).scheme or target.startswith("#"):
            return match[0]
        file, hash_, anchor = target.partition("#")
        place = (path.parent / file).resolve()
        if place in places:
            if words.endswith(place.name) and place.suffix == ".md":
                words = _title(place)
            return f"{image}[{words}]({relpath(places[place], here)}{hash_}{anchor})"
        if place.is_relative_to(DOCS / "images"):
            return f"{image}[{words}]({relpath(place.relative_to(DOCS).as_posix(), here)})"
        if place.is_relative_to(RUNS) and place.is_file():
            return f"{image}[{words}]({relpath(f'benchmarks/{place.relative_to(RUNS)}', here)})"
        if not place.exists():
            raise SystemExit(f"{path.relative_to(ROOT)}: {target} does not exist")
        return words

    return _LINK.sub(link, text)


def _title(page: Path) -> str:
    """The heading of a page: on the site, nobody knows names of files."""
    return page.read_text(encoding="utf-8").partition("# ")[2].partition("\n")[0]


def commands() -> str:
    """Every command with its options, and the exit codes."""
    weir: Any = get_command(app)
    root = typer.Context(weir, info_name="weir", help_option_names=list(HELP_OPTIONS))
    lines = ["# Commands", "", "Made from the help of every command: `weir COMMAND --help`.", ""]
    lines += [*_options(weir, root), ""]
    for command, context in _all(
        weir, root, [name for names in parts(only_own=True).values() for name in names]
    ):
        usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
        lines += [f"## {context.command_path}", "", f"`{usage}`", "", *_prose(command.help or "")]
        lines += [*_options(command, context), ""]
    lines += ["## Exit codes", "", "| code | meaning |", "|---|---|"]
    lines += [f"| {code} | {meaning} |" for code, meaning in failures.EXIT_CODES.items()]
    return "\n".join(lines) + "\n"


def _all(group: Any, above: typer.Context, names: Sequence[str]) -> Iterator[tuple[Any, typer.Context]]:
    for name in names:
        command = group.get_command(above, name)
        context = typer.Context(command, info_name=name, parent=above)
        if hasattr(command, "commands"):
            yield from _all(command, context, command.list_commands(context))
        else:
            yield command, context


def _prose(text: str) -> Iterator[str]:
    """Paragraphs; indented lines are examples."""
    for paragraph in text.strip("\n").split("\n\n"):
        lines = paragraph.split("\n")
        head = next((i for i, line in enumerate(lines) if line.startswith(" ")), len(lines))
        yield from map(_escaped, lines[:head])
        yield ""
        if lines[head:]:
            yield from ("```", *(line[2:] for line in lines[head:]), "```", "")


def _options(command: Any, context: typer.Context) -> Iterator[str]:
    yield from ("| option | value | what it does |", "|---|---|---|")
    for parameter in command.get_params(context):
        if getattr(parameter, "hidden", False) or (context.parent and parameter.name == "help"):
            continue
        if parameter.param_type_name == "argument":
            names, value = f"`{parameter.metavar or parameter.name.upper()}`", ""
        else:
            names = ", ".join(
                f"`{name}`" for name in (*sorted(parameter.opts, key=len), *parameter.secondary_opts)
            )
            value = (
                ""
                if parameter.is_flag
                else str(parameter.metavar or shape(parameter.display_type(context)) or "")
            )
        yield f"| {names} | {_cell(value)} | {_cell(parameter.help or '')} |"


_KEYS: Final = """\
# Keys of scenarios

A scenario is a YAML file that says what to test, and how. `weir run NAME --print > mine.yaml` prints one to
start from, `weir run mine.yaml` runs it. A key that is left out has its default value.

**In an editor.** `weir schema > scenario.schema.json` writes all of this page as a JSON Schema,
`weir voice schema > voice.schema.json` the same for [numbering plans](plan-keys.md). Both are also here:
[scenario.schema.json](scenario.schema.json), [voice.schema.json](voice.schema.json). An editor with a YAML
language server (VS Code, Neovim, Emacs) completes and checks a file beside it that begins with
`# yaml-language-server: $schema=scenario.schema.json`, as printed scenarios and plans do.
"""


def scenario_keys() -> str:
    """Every key of scenario files, from their schema."""
    schema = json_schema()
    definitions = schema["$defs"]
    paths = _paths(schema)
    lines = [_KEYS]
    for name, path in sorted(paths.items(), key=lambda item: item[1]):
        section = definitions[name]
        lines += [f"## {path}", "", *_paragraph(section.get("description", ""))]
        lines += ["| key | value | default | meaning |", "|---|---|---|---|"]
        for key, value in section["properties"].items():
            default = value.get("default", "")
            # A section of its own says what its keys are if it is left out.
            shown = "" if default == "" or isinstance(default, dict) else json.dumps(default)
            about = " ".join(value.get("description", "").split())
            lines.append(f"| `{key}` | {_cell(_kind(value, paths))} | {_cell(shown)} | {_cell(about)} |")
        lines.append("")
    return "\n".join(lines)


def _paths(schema: Mapping[str, Any]) -> Mapping[str, str]:
    """The shortest path of keys to each definition with keys of its own; a kind of scenario has its title."""
    definitions, found = schema["$defs"], {}
    waiting = [(str(root["$ref"]).rsplit("/", 1)[-1], "") for root in schema["oneOf"]]
    for name, path in waiting:
        if name in found or not definitions[name].get("properties"):
            continue
        found[name] = path or definitions[name]["title"]
        for key, value in definitions[name]["properties"].items():
            for ref in re.findall(r"#/\$defs/(\w+)", json.dumps(value)):
                waiting.append((ref, f"{path}.{key}" if path else key))
    return found


def _paragraph(text: str) -> Iterator[str]:
    if text:
        yield from (_escaped(" ".join(text.split())), "")


def _kind(value: Mapping[str, Any], paths: Mapping[str, str]) -> str:
    """The type of a value in few words."""
    if "$ref" in value:
        return paths.get(str(value["$ref"]).rsplit("/", 1)[-1], "text")
    if "const" in value:
        return json.dumps(value["const"])
    if "enum" in value:
        return ", ".join(map(json.dumps, value["enum"]))
    for several in ("anyOf", "oneOf", "allOf"):
        if several in value:
            return " or ".join(dict.fromkeys(_kind(one, paths) for one in value[several]))
    kind = str(value.get("type", "any"))
    if kind == "array" and isinstance(value.get("items"), dict):
        return f"list of {_kind(value['items'], paths)}"
    return {"null": "nothing", "object": "mapping", "boolean": "true or false", "string": "text"}.get(
        kind, kind
    )


def _cell(text: str) -> str:
    return _escaped(" ".join(text.split())).replace("|", "\\|")


def _escaped(text: str) -> str:
    return re.sub(r"([<*\[\]])", r"\\\1", text)


def main(tools: Path) -> int:
    """Build the site, and say what is wrong with it."""
    assemble()
    draw()
    subprocess.run([tools / "zensical", "build", "--clean"], cwd=WORK, check=True)
    localise(SITE)
    faults = list(broken_links(SITE))
    print(*faults, sep="\n", end="\n" if faults else "")
    pages = sorted((WORK / "pages").rglob("*.md"))
    words = [tools / "codespell", "--ignore-words", DOCS / "words.txt", *pages]
    spelled = subprocess.run(words, check=False).returncode
    print(f"{len(list(SITE.rglob('*.html')))} pages: {SITE / 'index.html'}")
    return 1 if faults or spelled else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
