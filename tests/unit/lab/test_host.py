from __future__ import annotations

from pathlib import Path

import pytest

from weirlab.lab.host import STATES, HostReader

STAT = """\
cpu  300 30 300 3000 30 6 90 12 0 0
cpu0 100 10 100 1000 10 2 30 4 7 0
cpu1 200 20 200 2000 20 4 60 8 0 0
intr 12345 0 0
"""
ZEROS = "00000000 " * 9
SOFTNET = f"aa 01 02 {ZEROS}00000000\nbb 1f 03 {ZEROS}00000001\n"


class Machine:
    """Files as the kernel shows them, below a temporary folder."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.sys = folder / "proc", folder / "sys"
        self.write("proc/stat", STAT)
        self.write("proc/net/softnet_stat", SOFTNET)
        self.write("proc/meminfo", "MemTotal:  1000 kB\nMemFree:  100 kB\nMemAvailable:   600 kB\n")

    def write(self, path: str, text: str) -> None:
        target = self.proc.parent / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def reader(self) -> HostReader:
        return HostReader({"sender": 0, "dut": 1}, proc=self.proc, sys=self.sys)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr("os.sysconf", lambda name: 100)
    return Machine(tmp_path)


def test_cpu_time_is_told_by_role_and_state_in_seconds(machine: Machine) -> None:
    sample = machine.reader().sample()
    expected = dict(zip(STATES, (1.0, 0.1, 1.0, 10.0, 0.1, 0.02, 0.3, 0.04), strict=True))
    assert sample.cpu_s["sender"] == expected
    assert sample.cpu_s["dut"]["softirq"] == 0.6
    assert sample.cpu_s["dut"]["steal"] == 0.08


def test_nice_time_outside_of_trials_stays_nice(machine: Machine) -> None:
    dut = machine.reader().sample().cpu_s["dut"]
    assert (dut["nice"], dut["idle"], dut["idle_poll"]) == (0.2, 20.0, 0.0)


def test_time_that_keeps_the_cpu_awake_counts_as_idle(machine: Machine) -> None:
    reader = machine.reader()
    with reader.polling():
        machine.write("proc/stat", STAT.replace("cpu1 200 20", "cpu1 200 170"))
    dut = reader.sample().cpu_s["dut"]
    assert dut["nice"] == pytest.approx(0.2)
    assert dut["idle"] == pytest.approx(21.5)
    assert dut["idle_poll"] == pytest.approx(1.5)
    assert "idle_poll" not in reader.sample().cpu_s["sender"]


def test_a_trial_cut_short_still_counts_its_polling(machine: Machine) -> None:
    reader = machine.reader()

    def trial() -> None:
        with reader.polling():
            machine.write("proc/stat", STAT.replace("cpu1 200 20", "cpu1 200 30"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trial()
    assert reader.sample().cpu_s["dut"]["idle_poll"] == pytest.approx(0.1)


def test_the_end_of_a_trial_that_waits_for_packets_is_no_idle_time(machine: Machine) -> None:
    reader = machine.reader()
    before = reader.sample().cpu_s
    with reader.polling():
        machine.write("proc/stat", STAT.replace("cpu1 200 20", "cpu1 200 30"))
    reader.leave_out(0.3)
    after = reader.sample().cpu_s
    assert after["sender"]["idle"] == pytest.approx(before["sender"]["idle"] - 0.3)
    # Awake for 0.1 s, which cannot have been more of the wait.
    assert after["dut"]["idle"] == pytest.approx(before["dut"]["idle"] + 0.1 - 0.3)
    assert after["dut"]["idle_poll"] == 0.0
    assert after["dut"]["nice"] == before["dut"]["nice"]


def test_softnet_drops_are_those_of_the_devices_cpu(machine: Machine) -> None:
    sample = machine.reader().sample()
    assert (sample.softnet_dropped, sample.softnet_squeezed) == (31, 3)


def test_softnet_lines_of_old_kernels_are_counted(machine: Machine) -> None:
    machine.write("proc/net/softnet_stat", "aa 01 02 0\nbb 04 05 0\n")
    assert machine.reader().sample().softnet_dropped == 4


def test_what_the_machine_does_not_expose_is_none(machine: Machine) -> None:
    (machine.proc / "meminfo").write_text("nothing known\n")
    sample = machine.reader().sample()
    assert sample.frequency_mhz is None
    assert sample.temperature_c is None
    assert sample.memory_used_bytes is None


def test_frequency_memory_and_temperature_are_read_where_exposed(machine: Machine) -> None:
    machine.write("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "2400000\n")
    for number, (kind, celsius) in enumerate([("iwlwifi_1", 80), ("x86_pkg_temp", 51), ("acpitz", 60)]):
        machine.write(f"sys/class/thermal/thermal_zone{number}/type", kind + "\n")
        machine.write(f"sys/class/thermal/thermal_zone{number}/temp", f"{celsius}000\n")
    sample = machine.reader().sample()
    assert sample.frequency_mhz == 2400.0
    assert sample.temperature_c == 51.0
    assert sample.memory_used_bytes == 400 * 1024


def test_any_thermal_zone_is_better_than_none(machine: Machine) -> None:
    machine.write("sys/class/thermal/thermal_zone0/type", "board\n")
    machine.write("sys/class/thermal/thermal_zone0/temp", "33500\n")
    assert machine.reader().sample().temperature_c == 33.5


def test_a_cpu_that_is_offline_has_no_readings(machine: Machine) -> None:
    sample = HostReader({"sender": 0, "dut": 7}, proc=machine.proc, sys=machine.sys).sample()
    assert sample.cpu_s["dut"] == {}
