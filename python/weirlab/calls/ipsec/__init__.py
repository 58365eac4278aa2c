"""What security costs a call: bytes on the wire, processing time, quality."""

from __future__ import annotations

from typing import Any

from weirlab.studies.contract import Study


class IpsecStudy(Study[Any, Any, Any]):
    """Commands alone: what encapsulations add to packets is computed."""

    key = "ipsec"
    title = "what IPsec and other encapsulations cost a call"
    commands = {"weirlab.calls.ipsec.command": ("ipsec",)}
