from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from weirlab.calls.calls.wire import KIND as CALLS
from weirlab.lab.machines.building import ImageBuild
from weirlab.lab.machines.qemu import Image, ImageContents
from weirlab.measure.calibrate import KIND as CALIBRATE
from weirlab.store import Store
from weirlab.testing import FakeBed, TrialDisturbance

from ..conftest import Weir
from ..measure.made import make_noise

Beds = Callable[..., list[FakeBed]]


def test_a_scenario_runs_from_calibration_to_report(
    weir: Weir, bed: Beds, scenario: Path, tmp_path: Path
) -> None:
    bed()
    out = tmp_path / "report.html"
    answer = weir("run", scenario, "--out", out)
    assert answer.code == 0
    assert out.exists()
    assert f"\nReport: {out}\n" in answer.out
    assert "held-out trial" in answer.out
    command = Store(tmp_path / "store").open("last").manifest.facts["command"]
    assert command == f"weir run {scenario} --out {out}"


def test_an_interrupted_scenario_goes_on(weir: Weir, bed: Beds, scenario: Path) -> None:
    bed(*[None] * 20, KeyboardInterrupt())
    answer = weir("run", scenario)
    assert answer.code == 130
    assert "weir run --resume " in answer.err
    again = weir("run", "--resume", "last", "--json")
    assert again.code == 0
    assert again.json["verification"]["trials"] == 5


@pytest.mark.parametrize("command", ["run", "profile"])
def test_the_ports_and_the_login_of_a_run_are_used_only_after_a_yes(
    command: str, weir: Weir, bed: Beds, scenario: Path, tmp_path: Path
) -> None:
    beds = bed(*[None] * 20, KeyboardInterrupt())
    wired = tmp_path / "wired.yaml"
    lab = (
        "lab: {kind: wired, between: [pa, pb]}\ndut: {at: 'ssh://root@fw1', change: rules, name: nftables}\n"
    )
    kept = [line for line in scenario.read_text().splitlines() if not line.startswith(("lab:", "dut:"))]
    wired.write_text(lab + "\n".join(kept))
    assert weir("run", "--yes", wired).code == 130
    run_id, opened = Store(tmp_path / "store").open("last").run_id, len(beds)
    answer = weir(command, "--resume", "last")
    assert answer.code == 2
    assert f"run {run_id} sends test traffic by pa and pb and logs in to ssh://root@fw1" in answer.err
    assert "--yes" in answer.err
    assert len(beds) == opened
    assert weir(command, "--resume", "last", "--yes").code == 0


def test_the_program_that_a_run_names_is_started_for_a_verification_only_after_a_yes(
    weir: Weir, finished: str, tmp_path: Path
) -> None:
    manifest = tmp_path / "store" / finished / "manifest.json"
    content = json.loads(manifest.read_text())
    content["scenario"]["lab"].update(kind="wired", between=["pa", "pb"])
    content["scenario"]["dut"].update(change="/opt/set-rules")
    manifest.write_text(json.dumps(content))
    answer = weir("verify", finished, "--again")
    assert answer.code == 2
    assert "starts the program '/opt/set-rules'" in answer.err
    assert weir("verify", finished).code == 0, "nothing is sent for trials that are stored"


def test_a_mistake_in_a_scenario_is_named_with_line_and_column(weir: Weir, bed: Beds, tmp_path: Path) -> None:
    beds = bed()
    file = tmp_path / "s.yaml"
    file.write_text("name: x\nprofile:\n  postions: [1]\n")
    answer = weir("run", file)
    assert answer.code == 2
    assert answer.err == f"weir: {file}:3:3: profile.postions: unknown key; did you mean 'positions'?\n"
    assert beds == []


def test_the_lab_of_a_scenario_can_be_overruled(
    weir: Weir, bed: Beds, scenario: Path, tmp_path: Path
) -> None:
    bed()
    assert weir("run", scenario, "--lab", "netns").code == 0
    assert Store(tmp_path / "store").open("last").manifest.scenario["lab"]["kind"] == "netns"


def test_fit_tells_the_parameters(weir: Weir, finished: str, tmp_path: Path) -> None:
    answer = weir("fit", finished, "--out", tmp_path / "m.json", "--json")
    assert answer.code == 0
    names = {parameter["name"] for parameter in answer.json["parameters"]}
    assert {"service_fixed_ns", "service_per_rule_ns", "queue_packets"} <= names
    assert (tmp_path / "m.json").exists()
    assert "service_per_rule_ns" in weir("fit", finished).out


def test_predict_answers_inside_the_profiled_range(weir: Weir, finished: str) -> None:
    answer = weir("predict", "last", "--rate", "200kpps", "--frame", "64", "--rules", "200", "--json")
    assert answer.code == 0
    assert answer.json["extrapolated"] is False
    assert answer.json["models"].keys() == {"queueing", "piecewise", "lohmiller"}
    low, high = answer.json["intervals"]["queueing"]["delay_mean_ns"]["90"]
    assert low <= answer.json["delay_mean_ns"] <= high
    assert answer.json["threshold_pps"] == pytest.approx(1e9 / (1150 + 2.5 * 200 + 0.2 * 64), rel=0.02)
    assert "pass without loss" in weir("predict", "last", "--rate", "200kpps", "--rules", "200").out


def test_predict_refuses_to_extrapolate_unless_told_to(weir: Weir, finished: str) -> None:
    arguments = ("predict", finished, "--rate", "50kpps", "--rules", "5000")
    refused = weir(*arguments, "--json")
    assert refused.code == 7
    assert refused.json["error"]["kind"] == "ModelError"
    assert "--extrapolate" in refused.err
    flagged = weir(*arguments, "--extrapolate", "--json")
    assert flagged.code == 0
    assert flagged.json["extrapolated"] is True
    assert flagged.json["why_extrapolated"]
    assert "extrapolating" in flagged.err


def test_verify_tells_each_models_errors(weir: Weir, finished: str) -> None:
    answer = weir("verify", "last", "--json")
    assert answer.code == 0
    rows = answer.json["errors"]
    assert {row["model"] for row in rows} >= {"queueing", "piecewise", "lohmiller"}
    assert {row["per"] for row in rows} == {"trial", "setting"}
    assert {"mean_absolute", "mean", "mean_low", "mean_high", "std", "max"} == rows[0]["absolute"].keys()
    assert rows[0]["coverage_percent"].keys() <= {"50", "90", "99"}
    assert "in the threshold" in weir("verify", finished).out


def test_verify_takes_other_settings_as_a_new_run(weir: Weir, finished: str) -> None:
    answer = weir(
        "verify", finished, "--rules", "300", "--loads", "50%,120%", "--repetitions", "1",
        "--frame", "64", "--duration", "0.05", "--json",
    )  # fmt: skip
    assert answer.code == 0
    assert answer.json["run_id"] != finished
    assert answer.json["trials"] == 2


def test_verify_draws_other_settings_with_another_seed(weir: Weir, finished: str) -> None:
    drawn = []
    for seed in ("1", "2"):
        answer = weir(
            "verify", finished, "--seed", seed, "--repetitions", "1", "--duration", "0.05", "--json"
        )
        assert answer.code == 0
        shown = weir("show", answer.json["run_id"], "--json").json
        drawn.append({(row["position"], row["sizes_text"]) for row in shown["thresholds"]})
        assert {size for _, size in drawn[-1]} == {"64", "1518"}
        assert {row["extrapolated"] for row in answer.json["errors"]} == {False, True}
    assert drawn[0] != drawn[1]


def test_report_writes_page_and_plots(
    weir: Weir, finished: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is in these files is looked at in the tests of the page.
    monkeypatch.setattr("weirlab.report.bundle.svg", lambda chart: "<svg></svg>")
    monkeypatch.setattr("weirlab.report.bundle.png", lambda chart: b"")
    answer = weir("report", "last", "--out", tmp_path / "r.html", "--plots", tmp_path / "plots", "--json")
    assert answer.code == 0
    assert Path(answer.json["path"]).exists()
    assert {Path(plot).suffix for plot in answer.json["plots"]} == {".png", ".svg", ".csv"}


def test_runs_lists_newest_first_and_show_tells_more(weir: Weir, finished: str) -> None:
    assert weir("trial", "--rate", "1kpps").code == 0
    listed = weir("runs", "--json").json["runs"]
    assert {run["kind"] for run in listed} == {"trial", "profile"}
    assert [run["kind"] for run in weir("runs", "--kind", "profile", "--json").json["runs"]] == ["profile"]
    assert "2 runs in" in weir("runs").out
    shown = weir("show", finished, "--json").json
    assert shown["manifest"]["status"] == "complete"
    assert shown["counts"]["verify"]["valid"] == 5
    assert f"Profile {finished} is complete" in weir("show", finished).out


def test_an_empty_store_is_no_error(weir: Weir) -> None:
    answer = weir("runs", "--json")
    assert answer.code == 0
    assert answer.json["runs"] == []
    assert "No runs in" in weir("runs").out


@pytest.mark.parametrize("command", ["show", "fit", "report", "verify", "export"])
def test_an_unknown_run_has_exit_code_6(weir: Weir, command: str, tmp_path: Path) -> None:
    extra = ["--out", tmp_path / "x"] if command == "export" else []
    answer = weir(command, "nosuch", *extra)
    assert answer.code == 6
    assert "'weir runs' lists what is there" in answer.err


def test_a_corrupt_run_is_named_and_does_not_hide_the_others(
    weir: Weir, finished: str, tmp_path: Path
) -> None:
    assert weir("trial", "--rate", "1kpps").code == 0
    manifest = tmp_path / "store" / finished / "manifest.json"
    manifest.write_text("{")
    answer = weir("show", finished)
    assert answer.code == 6
    assert str(manifest) in answer.err
    assert {run["status"] for run in weir("runs", "--json").json["runs"]} == {"corrupt", "complete"}


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_export_writes_the_tables(weir: Weir, finished: str, tmp_path: Path, format: str) -> None:
    answer = weir("export", "last", "--format", format, "--out", tmp_path / "data", "--json")
    assert answer.code == 0
    names = {Path(file).name for file in answer.json["files"]}
    assert {f"trials.{format}", f"histograms.{format}", "manifest.json"} <= names
    if format == "csv":
        with (tmp_path / "data" / "trials.csv").open() as file:
            assert "delay_p99_ns" in (next(csv.reader(file)))


@pytest.mark.parametrize(("undisturbed", "code"), [(0.95, 0), (0.5, 5), (0.2, 5)])
def test_doctor_can_require_a_quiet_machine(
    weir: Weir, monkeypatch: pytest.MonkeyPatch, undisturbed: float, code: int
) -> None:
    from weirlab.lab import doctor
    from weirlab.lab.finding import Finding

    monkeypatch.setattr("weirlab.measure.noise.listen", lambda *_: make_noise(undisturbed_ratio=undisturbed))
    monkeypatch.setattr(doctor, "diagnose", lambda *_: [Finding("kernel", True, "6.1")])
    assert weir("doctor", "--require-quiet", "--json").code == code
    assert weir("doctor").code == 0


def test_doctor_fails_only_for_what_is_essential(weir: Weir, monkeypatch: pytest.MonkeyPatch) -> None:
    from weirlab.lab import doctor
    from weirlab.lab.finding import Finding

    monkeypatch.setattr("weirlab.measure.noise.listen", lambda *_: make_noise(undisturbed_ratio=0.2))
    lesser = Finding("temperature", False, "not exposed", "nothing", essential=False)
    monkeypatch.setattr(doctor, "diagnose", lambda *_: [Finding("kernel", True, "6.1"), lesser])
    answer = weir("doctor")
    assert answer.code == 0
    assert "not usable for measuring now: only 20 % of short trials would count" in answer.out
    missing = Finding("privileges", False, "CAP_BPF is missing", "run as root")
    monkeypatch.setattr(doctor, "diagnose", lambda *_: [missing, lesser])
    answer = weir("doctor", "--json")
    assert answer.code == 3
    assert answer.json["ok"] is False
    assert answer.json["findings"][0]["remedy"] == "run as root"
    monkeypatch.setenv("COLUMNS", "80")
    works = Finding("kernel", True, "6.1")
    monkeypatch.setattr(doctor, "diagnose", lambda *_: [lesser, missing, works])
    shown = " ".join(weir("doctor").out.split())
    assert shown.startswith("Captures, plans and simulated trials work here. Trials in namespaces will not")
    order = ("Works here", "6.1", "Does not work here", "CAP_BPF", "not exposed", "What to do", "run as root")
    places = [shown.index(words) for words in order]
    assert places == sorted(places)


def test_lab_clean_tells_what_it_removed(weir: Weir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weirlab.lab.clean.clean", lambda: ["weir-1-tx", "weir-1-rx"])
    monkeypatch.setattr("weirlab.link.host.journal.clean", lambda tell: ["weir-00c0ffee"])
    assert weir("lab", "clean", "--json").json["removed"] == ["weir-1-tx", "weir-1-rx"]
    assert "Removed 2 namespaces of dead owners" in weir("lab", "clean").out
    assert "Put back what 1 dead session had changed: weir-00c0ffee" in weir("lab", "clean").out


def test_lab_build_tells_what_there_is_and_what_is_missing(
    weir: Weir, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    built = Image(tmp_path, ImageContents("recipe", "6.1.0-56-cloud-amd64", ["nftables 1.0.6"]))
    for path in (built.kernel, built.root):
        path.write_bytes(bytes(1_000_000))
    monkeypatch.setattr("weirlab.lab.machines.building.build", lambda **_: ImageBuild(built, renewed=True))
    monkeypatch.setattr("weirlab.lab.machines.qemu.missing", lambda: ["QEMU is not installed"])
    answer = weir("lab", "build", "--json")
    assert answer.json["kernel"] == "6.1.0-56-cloud-amd64"
    assert answer.json["size_bytes"] == 2_000_000
    assert answer.json["packages"] == ["nftables 1.0.6"]
    told = weir("lab", "build").out
    assert "Built the virtual machine with kernel 6.1.0-56-cloud-amd64 (2 MB in" in told
    assert "To run it: QEMU is not installed." in told


def test_a_kind_that_is_none_is_refused_and_one_without_runs_is_not(weir: Weir, finished: str) -> None:
    answer = weir("runs", "--kind", "nope")
    assert answer.code == 2
    assert "--kind 'nope': no such kind of run; there are profile, trial, " in answer.err
    assert finished in weir("runs", "--kind", "profile").out
    answer = weir("runs", "--kind", "monitor")
    assert answer.code == 0
    assert answer.out.startswith("No run of the kind monitor in ")


def test_every_kind_that_is_made_can_be_asked_for(weir: Weir) -> None:
    for kind in (
        "trial",
        CALIBRATE,
        "profile",
        "capacity",
        "failover",
        "monitor",
        CALLS,
        "search",
        "rfc2544",
    ):
        assert weir("runs", "--kind", kind).code == 0


def test_a_scenario_whose_trials_are_mostly_spoiled_says_why(
    weir: Weir, bed: Beds, scenario: Path, tmp_path: Path
) -> None:
    bed(*[TrialDisturbance(steal_s={"dut": 1.0})] * 1000)
    answer = weir("run", scenario)
    assert answer.code == 5
    last = answer.err.splitlines()[-1]
    assert "trials have no valid attempt: … ms stolen from the dut's CPU in " in last
    assert "quieter machine" in last
    assert "add loads" not in answer.err
    assert weir("fit", "last").code == 5


def test_labels_are_set_and_listed(weir: Weir, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    for name in ("one", "two"):
        with store.create("trial", {"name": name}, {}) as writer:
            pass
    run_id = writer.run_id
    answer = weir("label", run_id, "--name", "before", "--tag", "office", "--tag", "x", "--star", "--json")
    assert answer.json["label"] == {"name": "before", "star": True, "note": "", "tags": ["office", "x"]}
    assert "★ #office #x" in weir("runs", "--wide").out
    for option in (["--tag", "office"], ["--star"]):
        assert [run["run_id"] for run in weir("runs", *option, "--json").json["runs"]] == [run_id]
    again = weir("label", run_id, "--untag", "x", "--no-star", "--note", "Friday").out
    assert again == f"Run {run_id}: name: before; tags: office; note: Friday.\n"
    refused = weir("label", run_id, "--tag", "two words")
    assert (refused.code, "is no tag" in refused.err) == (2, True)
    assert weir("label", run_id).out == again
