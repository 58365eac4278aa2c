"""The wheel, built as `make wheel` builds it, and fresh environments that hold it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Installed:
    """A virtual environment with the wheel and what it depends on, and an empty folder to work in."""

    environment: Path
    folder: Path

    def weir(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the installed command in the empty folder; no compiler is in its path."""
        surroundings = {
            "PATH": f"{self.environment / 'bin'}:/usr/sbin:/sbin",
            "HOME": str(self.folder),
            "WEIR_STORE": str(self.environment / "store"),
            "LC_ALL": "C.UTF-8",
        }
        return subprocess.run(
            [self.environment / "bin" / "weir", *arguments],
            cwd=self.folder,
            env=surroundings,
            capture_output=True,
            text=True,
            check=False,
        )

    def answer(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        """The document that the command prints with ``--json``, when it ends with ``code``."""
        done = self.weir(*arguments, "--json")
        assert done.returncode == code, done.stderr
        document = json.loads(done.stdout)
        assert isinstance(document, dict)
        return document


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built with what Cargo has compiled for the editable install: it takes seconds."""
    for tool in ("cargo", "clang"):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool} to build the wheel")
    folder = tmp_path_factory.mktemp("dist")
    built = subprocess.run(
        [sys.executable, "-m", "maturin", "build", "--release", "--out", folder],
        cwd=ROOT,
        env=os.environ | {"PYO3_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def install(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Installed]:
    """Makes an environment as ``pip install weirlab[extras]`` would, with the packages of this one.

    Only what the wheel says that it depends on is there, so a dependency that nobody declared is missing.
    """

    def make(*extras: str) -> Installed:
        environment = tmp_path_factory.mktemp("environment")
        venv.create(environment, with_pip=False)
        (site,) = environment.glob("lib/python*/site-packages")
        pip = [sys.executable, "-m", "pip", "--python", environment / "bin" / "python", "install"]
        quietly = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
        subprocess.run([*pip, *quietly, wheel], check=True)
        _link_dependencies(_of_wheel(wheel, site), site, extras)
        return Installed(environment, tmp_path_factory.mktemp("empty"))

    return make


def _of_wheel(wheel: Path, site: Path) -> Distribution:
    with ZipFile(wheel) as archive:
        (name,) = {Path(entry).parts[0] for entry in archive.namelist() if ".dist-info/" in entry}
    return Distribution.at(site / name)


def _link_dependencies(of: Distribution, site: Path, extras: tuple[str, ...]) -> None:
    todo, seen = [(of, extras)], {""}
    while todo:
        package, wanted = todo.pop()
        for text in package.requires or ():
            requirement = Requirement(text)
            applies = requirement.marker is None or any(
                requirement.marker.evaluate({"extra": extra}) for extra in ("", *wanted)
            )
            if applies and requirement.name not in seen:
                seen.add(requirement.name)
                found = distribution(requirement.name)
                _link(found, site)
                todo.append((found, tuple(requirement.extras)))


def _link(package: Distribution, site: Path) -> None:
    for top in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
        if not (site / top).exists():
            (site / top).symlink_to(str(package.locate_file(top)))
