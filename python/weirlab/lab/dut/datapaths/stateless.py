"""What devices have in common that look at each packet by itself."""

from __future__ import annotations

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.lab.dut.rules import check, check_single
from weirlab.records import RuleSetup


def check_stateless(rules: RuleSetup, device: str, most: int | None = None, *, linear: bool = True) -> None:
    """Raise ``InputError`` for rules that ``device`` cannot implement.

    It tracks no connections, has at most ``most`` rules, and compares them one by one if ``linear``.
    """
    check(rules)
    if not linear:
        check_single(rules, device)
    if most is not None and rules.position > most:
        raise InputError(f"matching position {rules.position:,}: {device} takes {most:,} rules at most")
    if rules.stateful or (rules.answered and rules.position):
        raise InputError(
            f"the device {quoted(device)} tracks no connections: it cannot be stateful, nor have rules for "
            "flows that are answered; choose nftables"
        )
