"""The gateways of Weir's own: keys, what they are told, and their counters."""

from __future__ import annotations

import json
import signal
import struct
from pathlib import Path
from typing import Any

import pytest

from weirlab import _engine
from weirlab.base.errors import LabError
from weirlab.lab import dut, wiring
from weirlab.lab.dut.tunnels import esp, gateway
from weirlab.lab.dut.tunnels.tunnel import Gateway
from weirlab.traffic.encapsulation.encapsulations import ENCAPSULATIONS

UNUSED: Any = None
NEAR = Gateway(UNUSED, UNUSED, "203.0.113.1", "203.0.113.2", wiring.SENDERS, wiring.RECEIVERS)


def test_every_suite_has_a_formula_and_keys_with_which_the_engine_works() -> None:
    for suite in esp.SUITES:
        driver = esp.Esp(suite.name)
        assert driver.encapsulation in ENCAPSULATIONS
        keys = esp.new_keys(driver.cipher, suite.name, esp.FIRST_SPI)
        sender = _engine.EspOutbound(
            spi=keys.spi,
            suite=driver.cipher,
            iv_key=bytes(16),
            encryption_key=keys.encryption,
            authentication_key=keys.authentication,
            tunnel=("203.0.113.1", "203.0.113.2"),
        )
        packet = bytes.fromhex("4500001400000000401100000a0000010a000002")
        assert sender.encapsulate(packet) != packet


@pytest.mark.parametrize(
    ("name", "encryption", "authentication"),
    [
        ("aes128gcm16", 16 + 4, 0),
        ("aes256gcm16", 32 + 4, 0),
        ("aes128-sha256", 16, 32),
        ("aes256-sha1", 32, 20),
        ("aes256", 32, 0),
        ("chacha20poly1305", 32 + 4, 0),
        ("null-md5", 0, 16),
    ],
)
def test_keys_are_as_long_as_the_name_says_and_new_each_time(
    name: str, encryption: int, authentication: int
) -> None:
    cipher = esp.Esp(name).cipher
    made = [esp.new_keys(cipher, name, 256) for _ in range(2)]
    assert [(len(each.encryption), len(each.authentication), len(each.secret)) for each in made] == [
        (encryption, authentication, 32)
    ] * 2
    assert made[0] != made[1]


@pytest.mark.parametrize(
    ("name", "natt", "rekey"),
    [
        ("esp:aes128-sha1", None, {}),
        ("esp-udp:aes128-sha1", (4500, 4500), {}),
        ("esp:aes128-sha1:rekey=2min", None, {"rekey_packets": None, "rekey_s": 120.0}),
        ("esp:aes128-sha1:rekey=500packets", None, {"rekey_packets": 500, "rekey_s": None}),
    ],
)
def test_what_a_gateway_is_told_is_what_the_engine_takes(
    name: str, natt: object, rekey: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = dut.make(name)
    assert isinstance(driver, esp.Esp)
    there = esp.Keys(0x1000, b"e" * 16, b"a" * 20, b"s" * 32)
    back = esp.Keys(0x1001, b"E" * 16, b"A" * 20, b"S" * 32)
    config = tmp_path / "esp.json"
    config.write_text(json.dumps(dict(driver._config(NEAR, 0, there, back))))
    told: dict[str, Any] = {}
    monkeypatch.setattr(_engine, "run_esp_gateway", lambda **arguments: told.update(arguments))
    before = signal.getsignal(gateway.REKEY)
    try:
        gateway.main(str(config))
        asked = told.pop("is_rekey_wanted")
        assert not asked()
        signal.raise_signal(gateway.REKEY)
        assert [asked(), asked()] == [True, False]
    finally:
        signal.signal(gateway.REKEY, before)
    assert not config.exists()
    assert told.pop("iv_key") != bytes(16)
    assert told == {
        "inside": "esp0",
        "outside": ("wan0", bytes.fromhex("027765697221"), bytes.fromhex("027765697222"), 1500),
        "suite": "aes-cbc-hmac-sha1-96",
        "ends": ("203.0.113.1", "203.0.113.2"),
        "sending": (0x1000, b"e" * 16, b"a" * 20, b"s" * 32),
        "receiving": (0x1001, b"E" * 16, b"A" * 20, b"S" * 32),
        "natt": natt,
        "window": 1024,
        "counters": "/run/esp.counters",
        **rekey,
    }


def test_a_gateway_that_cannot_be_ends_with_the_reason(tmp_path: Path) -> None:
    driver = esp.Esp()
    bad = esp.Keys(1, b"", b"", bytes(32))
    config = tmp_path / "esp.json"
    config.write_text(json.dumps(dict(driver._config(NEAR, 0, bad, bad))))
    with pytest.raises(SystemExit, match="SPI 1: 0 to 255 are reserved"):
        gateway.main(str(config))


class Machine:
    """Whose counters are in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name

    def path(self, path: str) -> Path:
        return self.folder / Path(path).name

    def output(self, name: str) -> list[str]:
        return []

    def check(self) -> None:
        pass


def test_counters_are_told_by_gateway_and_reason(tmp_path: Path) -> None:
    driver = esp.Esp()
    assert driver.counters() == {}
    names = gateway.counter_names()
    for number, name in enumerate(("near", "far")):
        (tmp_path / name).mkdir()
        values = range(100 * number, 100 * number + len(names))
        (tmp_path / name / "esp.counters").write_bytes(struct.pack(f"={len(names)}Q", *values))
    machines: Any = [Machine(tmp_path / name, f"the {name} gateway") for name in ("near", "far")]
    driver._machines = machines
    found = driver.counters()
    assert len(found) == 2 * len(names)
    assert found["near_esp_out_packets"] == names.index("out_packets")
    assert found["far_esp_in_bad_tag"] == 100 + names.index("in_bad_tag")
    assert {"near_esp_out_too_long", "far_esp_in_replayed", "far_esp_in_too_old"} <= set(found)


def test_counters_that_are_not_there_are_an_error(tmp_path: Path) -> None:
    driver = esp.Esp()
    machines: Any = [Machine(tmp_path, "the near gateway")]
    driver._machines = machines
    with pytest.raises(LabError, match="the counters of the near gateway cannot be read"):
        driver.counters()
