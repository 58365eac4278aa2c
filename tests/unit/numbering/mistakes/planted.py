"""How a mistake is planted into the small plan, and what parts of that are called."""

from __future__ import annotations

from dataclasses import dataclass

PUBLIC = "  public: {suffix: e164.arpa, zone: 0.2.4.e164.arpa}\n"
ROUTE = '  - {at: core, prefix: "+420222", to: [desk, gw]}\n'
RANGE = '  - {prefix: "+420222", owner: two, digits: 12}\n'
SIP = "      - {order: 100, preference: 10, service: E2U+sip, uri: 'sip:+\\1@example.net'}\n"
H323 = "      - {order: 100, preference: 20, service: E2U+h323, uri: 'h323:\\1@gk.example.net'}\n"
SRV = "target: desk.example.net"
TO_PBX = '  - {at: gk, prefix: "+420", to: pbx}\n'


@dataclass(frozen=True)
class Planted:
    """A mistake: what is replaced in the plan, and the finding; its line has ``mark`` in it."""

    code: str
    old: str
    new: str
    mark: str
    reason: str
    severity: str = "error"
