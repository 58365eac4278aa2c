"""What `import weirlab` offers, by the examples of its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import weirlab
from weirlab.base.errors import InputError, StoreError

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert len(examples) == 4
    names: dict[str, object] = {}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)
    (kept,) = weirlab.runs(tmp_path / "runs")
    assert kept.kind == "profile"
    assert weirlab.open_run(store=tmp_path / "runs").has("model")


def test_a_dict_is_checked_as_a_file_is(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the scenario.*profil: unknown key; did you mean 'profile'"):
        weirlab.run({"name": "mine", "profil": {}}, store=tmp_path)
    with pytest.raises(InputError, match="no ready-made scenario has this name"):
        weirlab.run("firewall-rule", store=tmp_path)
    with pytest.raises(StoreError):
        weirlab.open_run(store=tmp_path)
    with pytest.raises(AttributeError, match="has no attribute 'no_such_thing'"):
        weirlab.no_such_thing  # type: ignore[attr-defined]  # noqa: B018


def test_the_surface_is_what_the_page_tells() -> None:
    told = set(re.findall(r"weirlab\.(\w+)\(", PAGE.read_text()))
    assert told | {"resume", "__version__"} == set(weirlab.__all__)  # type: ignore[attr-defined]
