"""A driver in a package of its own, installed beside Weir, is one of Weir's as far as a user can see."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from weirlab.base.errors import InputError
from weirlab.lab import doctor, dut
from weirlab.records import RuleSetup
from weirlab.scenario import Dut

HERE = Path(__file__).parent
DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "add-a-device.md"


def install(folder: Path, name: str, entry_point: str) -> None:
    """What an installer leaves of a package's metadata."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{dut.GROUP}]\n{entry_point}\n")


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path for packages; what is known of drivers is forgotten before and after."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(HERE))
    dut._others.cache_clear()
    yield tmp_path
    dut._others.cache_clear()
    for name in ("weir_chains", "other"):
        sys.modules.pop(name, None)


def test_it_is_made_named_in_scenarios_and_looked_at_by_the_doctor(packages: Path) -> None:
    install(packages, "weir-chains", "chains = weir_chains:Chains")
    assert dut.make("nftables-chains").name == "nftables-chains"
    assert Dut(name="nftables-chains").name == "nftables-chains"
    assert "device nftables-chains" in [finding.name for finding in doctor._devices()]
    with pytest.raises(InputError, match=r"'nftables-chain' \(did you mean nftables-chains\?\)"):
        dut.make("nftables-chain")
    with pytest.raises(InputError, match="choose the device 'ruleset'"):
        dut.make("nftables-chains", packages / "my.rules")


def test_its_accepting_rule_is_the_last_of_its_chain(packages: Path) -> None:
    from weir_chains import ruleset  # type: ignore[import-not-found]

    text = ruleset(RuleSetup(18))
    assert text.count("chain group1 {") == 2
    assert "10.0.1.0/28 : jump group1, 198.18.0.0/16 : jump group1 }" in text
    assert "    ip saddr 198.18.0.0/16 ip daddr 198.19.0.0/16 accept\n  }\n  chain forward {" in text
    assert ruleset(RuleSetup()).count("policy accept;") == 2


@pytest.mark.parametrize(
    ("entry_point", "source", "why"),
    [
        ("gone = not_there:Device", "", "the device gone of bad cannot be loaded: ModuleNotFoundError"),
        ("json = json:JSONDecoder", "", "JSONDecoder is not a class derived from weirlab.lab.base.Driver"),
        ("half = other:Half", "class Half(Driver):\n name = 'h'\n", "other:Half lacks apply, check, facts"),
        (
            "mine = other:Mine",
            "from weirlab.lab.dut.rules import Forward\nclass Mine(Forward):\n name = 'iptables'\n",
            "the device mine of bad is left out: Weir has one called 'iptables'",
        ),
    ],
)
def test_a_package_that_is_broken_is_told_and_breaks_nothing_else(
    packages: Path, entry_point: str, source: str, why: str
) -> None:
    (packages / "other.py").write_text(f"from weirlab.lab.base import Driver\n{source}")
    install(packages, "bad", entry_point)
    assert dut.make("forward").name == "forward"
    (told,) = dut.broken()
    assert why in told
    with pytest.raises(InputError, match=re.escape(why)):
        dut.make("not-there")
    with pytest.raises(ValidationError, match=re.escape(why)):
        Dut(name="not-there")
    assert why in [*doctor._devices()][-1].detail


def test_a_driver_that_cannot_be_tried_does_not_stop_the_doctor(packages: Path) -> None:
    (packages / "other.py").write_text(
        "from weirlab.lab.dut.rules import Forward\n"
        "class Mine(Forward):\n name = 'mine'\n def check(self):\n  raise OSError('no such port')\n"
    )
    install(packages, "other", "mine = other:Mine")
    (found,) = (finding for finding in doctor._devices() if finding.name == "device mine")
    assert not found.ok
    assert found.detail == "its driver failed: OSError: no such port"


def test_the_document_shows_it_whole() -> None:
    shown = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(), re.S)
    assert shown is not None
    assert shown[1] == (HERE / "weir_chains" / "__init__.py").read_text()
