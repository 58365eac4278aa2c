"""The settings of H.323 telephones, as JSON."""

from __future__ import annotations

import json

from weirlab.numbering.configs import parts, sipp
from weirlab.numbering.configs.gatekeeper import RAS_PORT
from weirlab.numbering.plan.model import Engine
from weirlab.numbering.routing import PlanNetwork

ORDERS = "orders"
"""The Unix socket at which a telephone takes orders, in its folder."""


def is_one(engine: Engine) -> bool:
    """Is an engine an H.323 telephone? One that also speaks SIP counts as a SIP telephone."""
    return engine.kind == "endpoint" and "h323" in engine.speaks and "sip" not in engine.speaks


def files(network: PlanNetwork, name: str, root: str) -> dict[str, str]:
    """``telephone.json``; the telephone's folder is ``root``."""
    engine = network.plan.engines[name]
    keeper = parts.gatekeeper(network, name)
    gateway = engine.home if engine.home is not None and engine.home != keeper else None
    document = {
        "telephone": name,
        "plan": network.plan.plan,
        "address": parts.address(network, name),
        "port": engine.port("h323"),
        "gatekeeper": _place(network, keeper, RAS_PORT) if keeper is not None else None,
        "home": _place(network, gateway) if gateway is not None else None,
        "codecs": [_codec(network, name, codec) for codec in engine.codecs or ("alaw",)],
        "orders": f"{root}/{ORDERS}",
    }
    return {"telephone.json": json.dumps(document, indent=2) + "\n"}


def _place(network: PlanNetwork, name: str, port: int | None = None) -> dict[str, object]:
    at = network.plan.engines[name].port("h323") if port is None else port
    return {"engine": name, "address": parts.address(network, name), "port": at}


def _codec(network: PlanNetwork, name: str, codec: str) -> dict[str, object]:
    if codec not in sipp.PAYLOADS:
        what = f"telephones speak {', '.join(sipp.PAYLOADS)}, and not {codec}"
        raise parts.refuse(network, ("engines", name, "codecs"), what)
    return {"codec": codec, "payload": sipp.PAYLOADS[codec][0], "bytes": sipp.BYTES[codec]}
