"""``weir ports``, ``weir check`` and ``weir cable``: before the user's own device is tested."""

from __future__ import annotations

from typing import Annotated

import typer

from weirlab.cli.options import ResultOptions, WiredOptions, grouped, without
from weirlab.cli.options.device import BackendOption

PORTS = """List the ports of this machine, and whether they can test a device.

For each port: its driver and speed, whether it has a link, how Weir would
send frames (by XDP in the driver, or by packet sockets, at lower rates), and
why it cannot be used. Weir does not use a port that carries a route, a TCP
connection such as your SSH session, or the way to the name server, that
belongs to a bridge, or that has an XDP program. A port with an address needs
--take.

Examples:
  weir ports
  weir ports --json
"""

CHECK = """Check two ports and the device between them with at most ten frames.

Weir moves the ports into network namespaces, and restores them afterwards. It
reports each check: whether a switch or another host is connected, whether the
device answers, and whether each frame arrives once, at the right port.

Examples:
  weir check --between enp3s0 enp4s0
  weir check --between enp3s0 enp4s0 --gateways 198.18.0.254,198.19.0.254
  weir check --between enp3s0 enp4s0 --mode bridge
"""

CABLE = """Measure delay and error of two ports over a patch cable, without the device.

Weir sends frames of several sizes at 1, 50 and 99 % of the highest load that
the ports carry without loss. Each frame is counted four times: by the sender,
by the first port, by the second port, and by the receiver. The median delay
over the cable is the bias of every delay measured with these ports. Half the
width of the middle 95 % is the random error. The exit code is 5 if the counts
differ.

Examples:
  weir cable --between enp3s0 enp4s0
  weir cable --between enp3s0 enp4s0 --frames 10000000
  weir cable --between enp3s0 enp4s0 --json
"""


def add_to(app: typer.Typer) -> None:
    panel = "Machine"
    app.command("ports", help=PORTS, rich_help_panel=panel)(grouped(ports))
    app.command("check", help=CHECK, rich_help_panel=panel)(grouped(check))
    app.command("cable", help=CABLE, rich_help_panel=panel)(grouped(cable))


def ports(ctx: typer.Context, result: ResultOptions) -> None:
    from weirlab.devices.wired import tables
    from weirlab.lab.wired.ports import survey

    with result.session(ctx) as session:
        found = survey()
        usable = [port.name for port in found if port.usable]
        then = f"; next: weir check --between {' '.join(usable[:2])}" if len(usable) > 1 else ""
        listed = f": {', '.join(usable)}" if usable else ""
        sentence = f"{len(usable)} of {len(found)} ports can be used{listed}{then}"
        session.finish({"kind": "ports", "ports": found}, sentence, tables.ports(found))


def check(
    ctx: typer.Context, *, wired: WiredOptions, backend: BackendOption = "auto", result: ResultOptions
) -> None:
    from weirlab.jobs.testbeds import open_wired
    from weirlab.scenario import BLACK_BOX, Dut

    with result.session(ctx) as session:
        lab = wired.lab(backend)
        checked: list[str] = []

        def tell(sentence: str) -> None:
            checked.append(sentence)
            session.say(f"ok: {sentence}")

        with open_wired(lab, Dut(name=BLACK_BOX), session.progress, 4, tell) as bed:
            facts = {"backend": bed.backend, **bed.facts}
        options = wired.typed_again()
        sentence = f"The device forwards between both ports; next: weir trial {options} --rate 1kpps"
        session.finish({"kind": "check", "checked": checked, **facts}, sentence)


def cable(
    ctx: typer.Context,
    *,
    wired: Annotated[WiredOptions, without("addresses", "gateways", "mode")],
    backend: BackendOption = "auto",
    frames: Annotated[
        int, typer.Option(min=9, max=10**9, help="Frames to send in all.", rich_help_panel="Plan")
    ] = 1_000_000,
    result: ResultOptions,
) -> None:
    from weirlab.base.errors import TrialError
    from weirlab.devices.wired import tables
    from weirlab.devices.wired.cable import cable_results, rows
    from weirlab.jobs.testbeds import open_cable
    from weirlab.traffic.spec import Flows

    with result.session(ctx) as session:
        lab = wired.lab(backend)
        wired.confirm()
        with open_cable(lab) as bed:
            found = cable_results(bed, frames, session.progress, flows=Flows(lab.senders))
            document = {"kind": "cable", "backend": bed.backend, **bed.facts, "results": list(rows(found))}
        missing = [each for each in found if not each.exact]
        sent = sum(each.sent for each in found)
        problem = None
        if missing:
            problem = TrialError(
                f"at {len(missing)} of {len(found)} loads, the counts of sender, ports and receiver differ: "
                "see the table; another cable, other ports or a quieter machine may help"
            )
        sentence = (
            f"{sent:,} frames crossed the cable; sender, both ports and receiver count the same."
            if problem is None
            else f"{sent:,} frames were sent, and not all counts agree."
        )
        session.finish(document, sentence, tables.cable(found), problem)
        session.complain(problem)
