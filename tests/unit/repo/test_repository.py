"""What must hold for the tracked files as such."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LOCK_FILES = {"Cargo.lock", "package-lock.json", "requirements/dev.txt", "requirements/tools.txt"}

# Put together from parts, so that this file does not find itself.
REGISTRY_HOSTS = re.compile(
    "|".join(
        re.escape(name)
        for name in (
            "pypi" + ".org",
            "pythonhosted" + ".org",
            "static.crates" + ".io",
            "index.crates" + ".io",
            "registry.npmjs" + ".org",
            "proxy.golang" + ".org",
            "deb.debian" + ".org",
        )
    )
)
MACHINE_PATHS = re.compile(r"(?<![\w.~-])/(?:" + "|".join(("work", "root")) + r")/[\w.]")


def text_files() -> Iterator[tuple[str, str]]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("needs a git checkout")
    for name in sorted(set(listed.stdout.split("\0")) - {""} - LOCK_FILES):
        path = ROOT / name
        if not path.is_file():
            continue
        try:
            yield name, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def places(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in text_files()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_file_names_a_package_registry_host() -> None:
    assert places(REGISTRY_HOSTS) == []


def test_no_file_holds_a_path_of_one_machine() -> None:
    assert places(MACHINE_PATHS) == []


def test_every_make_command_in_the_documents_is_a_target() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in ("README.md", "CONTRIBUTING.md"):
        named = set(re.findall(r"(?:^|`)make ([a-z][a-z-]*)", (ROOT / document).read_text(), re.MULTILINE))
        assert named <= targets, document


def test_the_readme_of_the_wheel_links_to_nothing_in_the_repository() -> None:
    readme = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["readme"]
    assert re.findall(r"\]\((?!https://)", (ROOT / readme).read_text()) == []


def test_every_target_is_described_in_the_list() -> None:
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    assert [line.split()[1] for line in listed.splitlines()] == phony[1].split()


def test_the_readme_shows_a_picture() -> None:
    assert re.search(r"!\[[^\]]+\]\([^)]+\.(png|svg)\)", (ROOT / "README.md").read_text())


def test_every_relative_link_in_the_documents_leads_to_a_file() -> None:
    broken = [
        f"{name}: {target}"
        for name, text in text_files()
        if name.endswith(".md")
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", text)
        if not (ROOT / name).parent.joinpath(target).exists()
    ]
    assert broken == []


def test_every_dependency_of_the_project_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = [
        project["project"]["dependencies"],
        *project["project"]["optional-dependencies"].values(),
        *project["dependency-groups"].values(),
    ]
    wanted = [entry for group in groups for entry in group]
    names = {re.split(r"[\[<>=]", entry)[0] for entry in wanted}
    files = [(ROOT / f"requirements/{name}.txt").read_text() for name in ("dev", "tools", "fuzz")]
    assert names <= {name for text in files for name in re.findall(r"^([\w.-]+)==", text, re.MULTILINE)}


def test_every_decision_has_a_number_of_its_own_which_its_title_repeats() -> None:
    pages = sorted((ROOT / "docs/decisions").glob("*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    assert [page.read_text().split(". ")[0] for page in pages] == [f"# {n + 1}" for n in range(len(pages))]


@pytest.mark.parametrize("name", ["bare", "deb"])
def test_what_needs_a_package_says_so_where_there_is_none(name: str, tmp_path: Path) -> None:
    (tmp_path / "packaging").mkdir()
    copy = shutil.copy(ROOT / "packaging" / name, tmp_path / "packaging")
    done = subprocess.run([copy], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.search(r"^(bare|deb): .* in dist|^bare: dist has no .*builds", done.stderr)


@pytest.mark.parametrize(
    ("script", "why", "expected"),
    [
        (
            "postinst",
            "configure",
            [
                "systemd-sysusers weir.conf",
                "systemctl --quiet daemon-reload",
                "systemctl --quiet try-restart weir-web.service",
            ],
        ),
        ("postinst", "abort-upgrade", []),
        ("prerm", "remove", ["systemctl --quiet disable --now weir-web.service"]),
        ("prerm", "upgrade", []),
        ("postrm", "remove", ["rm -rf /run/weir"]),
        ("postrm", "purge", ["rm -rf /run/weir", "rm -rf /var/cache/weir"]),
        ("postrm", "upgrade", []),
    ],
)
def test_the_package_leaves_nothing_behind_and_an_upgrade_everything(
    script: str, why: str, expected: list[str], tmp_path: Path
) -> None:
    for name, code in (("systemd-sysusers", 0), ("systemctl", 1), ("rm", 0)):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho {name} "$@" >>{tmp_path}/done\nexit {code}\n')
        program.chmod(0o755)
    text = (ROOT / "packaging/debian" / script).read_text().replace("/usr/bin/weir", "true")
    subprocess.run(["/bin/sh", "-c", text, script, why], env={"PATH": str(tmp_path)}, check=True)
    done = tmp_path / "done"
    assert (done.read_text().splitlines() if done.exists() else []) == expected
