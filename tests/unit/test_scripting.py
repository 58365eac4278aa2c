"""What `import weirlab` offers, by the examples of its page."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import polars as pl
import pytest

import weirlab
from weirlab.base.errors import InputError, NotMet, StoreError, WeirError
from weirlab.base.tables import Table
from weirlab.calls.quality.study import QualityOutcome
from weirlab.cli.output import CommandResult
from weirlab.devices.planning.outcome import PlanOutcome
from weirlab.scripting import RunChart

NOTEBOOKS = Path(__file__).resolve().parents[2] / "examples" / "notebooks"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert len(examples) == 6
    names: dict[str, object] = {}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)
    assert [kept.kind for kept in weirlab.runs(tmp_path / "runs")] == ["profile", "profile"]
    assert weirlab.open_run(store=tmp_path / "runs").has("model")
    assert isinstance(names["plan"], PlanOutcome)
    assert names["plan"].verdict == "meets"
    assert isinstance(names["voice"], QualityOutcome)
    assert len(names["voice"].streams) == 10


def shown_by(notebook: Path) -> list[object]:
    """What the cells of a notebook show, each in a namespace that they share."""
    names: dict[str, object] = {}
    values = []
    for cell in json.loads(notebook.read_text())["cells"]:
        if cell["cell_type"] == "code":
            tree = ast.parse("".join(cell["source"]))
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, notebook.name, "exec"), names)
            if isinstance(last, ast.Expr):
                values.append(eval(compile(ast.Expression(last.value), notebook.name, "eval"), names))
    return values


def html_of(value: object) -> str:
    return str(value._repr_html_())  # type: ignore[attr-defined]


def test_the_notebook_about_a_firewall_answers_its_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    profile, thresholds, chart, prediction, plan, verdict = shown_by(NOTEBOOKS / "firewall.ipynb")
    assert "Simulated, not measured." in html_of(profile)
    assert isinstance(thresholds, pl.DataFrame)
    assert thresholds.height == 12
    assert isinstance(chart, RunChart)
    assert chart._repr_svg_().startswith("<svg")
    assert chart.data.height > 0
    assert isinstance(prediction, CommandResult)
    assert prediction.document["threshold_pps"] > 300_000
    assert "300 two-way calls" in html_of(plan)
    assert verdict == "every requirement is met"


def test_the_notebook_about_a_transfer_names_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(NOTEBOOKS)
    why, rtt = shown_by(NOTEBOOKS / "transfer.ipynb")
    assert "the receiver&#x27;s window was full" in html_of(why)
    assert isinstance(rtt, pl.DataFrame)
    assert rtt["median_ms"].is_between(100, 140).all()


def test_the_notebook_about_calls_finds_the_planted_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, heard, verdict = shown_by(NOTEBOOKS / "calls.ipynb")
    assert "10 voice streams" in html_of(heard)
    assert isinstance(verdict, NotMet)


def test_a_command_returns_what_it_would_have_printed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    result = weirlab.command("trial", lab="sim", rate="300kpps", duration=0.05, store=tmp_path)
    assert result.document["lost"] == 0
    assert result.problem is None
    assert weirlab.command("runs", store=tmp_path).frame("Runs").height == 1
    with pytest.raises(InputError, match="no table 'Nothing'"):
        result.frame("Nothing")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nonsense",), "No such command 'nonsense'"),
        (("trial --bad",), "No such option: --bad"),
        (("trace", "/nowhere.pcap"), "the capture /nowhere.pcap cannot be opened"),
        (("show", "last"), "no run yet"),
    ],
)
def test_a_mistake_in_a_command_is_an_error(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    with pytest.raises(WeirError, match=re.escape(message)):
        weirlab.command(*words, store=tmp_path)


def test_text_of_strangers_is_no_html_in_a_cell() -> None:
    result = CommandResult(conclusion="<b>", tables=(Table("$x$", ("<i>", "n"), [("&", "1")], details=True),))
    shown = html_of(result)
    assert "&lt;b&gt;" in shown
    assert "<i>" not in shown
    assert "$" not in shown
    assert "<details><summary>&#36;x&#36;</summary>" in shown


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
