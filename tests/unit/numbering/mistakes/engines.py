"""Engines, name servers, zones and hosts."""

from __future__ import annotations

from .planted import PUBLIC, SIP, SRV, Planted

ENGINES = (
    Planted(
        "no address",
        "address: 192.0.2.6, ",
        "",
        "  pbx:",
        "pbx has no address: no engine can send a call there",
    ),
    Planted(
        "same address",
        "address: 192.0.2.5",
        "address: 192.0.2.3",
        "  desk:",
        "desk and gw both listen at 192.0.2.3, port 5060",
    ),
    Planted(
        "hand over",
        "hand_over: {h323: gw}",
        "hand_over: {h323: desk}",
        "hand_over",
        "desk cannot take calls for H.323: it is an endpoint that speaks SIP",
    ),
    Planted("no home", ", home: core", "", "caller: phone", "phone makes calls, but has no home"),
    Planted(
        "zone",
        'prefix: "+4201112"',
        'prefix: "+4211112"',
        '"+4211112"',
        "+4211112 does not lie in zone 0.2.4.e164.arpa, which begins with +420",
    ),
    Planted(
        "no address",
        SRV,
        "target: voip.example.net",
        "services:",
        "_sip._udp.example.net leads to voip.example.net, which has no A record",
    ),
    Planted(
        "wrong port",
        "port: 5060",
        "port: 5070",
        "services:",
        "_sip._udp.example.net leads to port 5070 of desk.example.net, which listens for SIP at port 5060",
    ),
    Planted(
        "no address",
        "\n    services: [{service: sip, transport: udp, priority: 10, weight: 5, port: 5060, "
        "target: desk.example.net}]",
        "",
        SIP.strip() + "\n      - {order: 100, preference: 20",
        "sip URIs lead to example.net, which has neither an SRV record nor an address",
    ),
    Planted(
        "no address",
        "    hosts: {ns.example.net: 192.0.2.53}\n",
        "",
        "dns:",
        "the name server ns.example.net has no A record in the zone example.net",
    ),
    Planted(
        "outside",
        "h323:\\1@gk.example.net",
        "h323:\\1@gk.exmaple.net",
        "gk.exmaple.net",
        "h323 URIs lead to gk.exmaple.net, a host outside the plan",
        "warning",
    ),
    Planted(
        "no dns",
        "dns: {primary: ns.example.net, contact: hostmaster@example.net}\n",
        "",
        "trees:\n",
        "there are zones, but no dns section names their servers",
    ),
    Planted(
        "same name",
        "host: gk.example.net",
        "host: desk.example.net",
        "  gk:",
        "desk.example.net is 192.0.2.4 here, and 192.0.2.5 elsewhere in the plan",
    ),
    Planted(
        "zone",
        "host: gk.example.net",
        "host: gk.example.com",
        "  gk:",
        "gk.example.com lies in no zone of the plan: no A record is written for it",
        "warning",
    ),
    Planted(
        "zone",
        "ns.example.net: 192.0.2.53",
        "ns.example.net: 192.0.2.53, www.example.com: 192.0.2.80",
        "www.example.com",
        "www.example.com does not lie in the zone example.net",
    ),
    Planted(
        "zone",
        PUBLIC,
        PUBLIC + "  second: {suffix: e164.arpa, zone: 0.2.4.e164.arpa}\n",
        "  second:",
        "zone 0.2.4.e164.arpa is already defined in line 19",
    ),
    Planted(
        "no srv",
        "services: [{service: sip, transport",
        "services: [{service: h323cs, transport",
        SIP.strip() + "\n      - {order: 100, preference: 20",
        "sip URIs lead to example.net, which has an address but no SRV record: there is only one target, "
        "without a fall-back",
        "warning",
    ),
    Planted(
        "two gatekeepers",
        "address: 192.0.2.4, host: gk.example.net}\n",
        "address: 192.0.2.4, host: gk.example.net}\n"
        "  far: {kind: gatekeeper, address: 192.0.2.8, hand_over: {sip: gw}}\n",
        "  gw:",
        "gw has routes with the gatekeepers gk and far, but can register with only one",
    ),
)
