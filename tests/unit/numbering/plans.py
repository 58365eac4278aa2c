"""Small plans for tests."""

from __future__ import annotations

from datetime import date

from weirlab.numbering.plan import PlanDocument, load, loads, ready
from weirlab.numbering.routing import PlanNetwork

DAY = date(2026, 11, 22)

BASE = """\
plan: small
serial: 7
caller: phone
dns: {primary: ns.example.net, contact: hostmaster@example.net}
organisations:
  one: {title: One}
  two: {title: Two}
ranges:
  - {prefix: "+420111", owner: one, digits: 12}
  - {prefix: "+420222", owner: two, digits: 12}
engines:
  phone: {kind: endpoint, protocols: [sip], address: 192.0.2.1, codecs: [alaw], organisation: one, home: core}
  core: {kind: proxy, address: 192.0.2.2, trees: [public], hand_over: {h323: gw}}
  gw: {kind: gateway, protocols: [sip, h323], address: 192.0.2.3, codecs: [alaw, ulaw]}
  gk: {kind: gatekeeper, address: 192.0.2.4, host: gk.example.net}
  desk: {kind: endpoint, protocols: [sip], address: 192.0.2.5, host: desk.example.net, codecs: [alaw]}
  pbx: {kind: endpoint, protocols: [h323], address: 192.0.2.6, codecs: [ulaw]}
trees:
  public: {suffix: e164.arpa, zone: 0.2.4.e164.arpa}
enum:
  - tree: public
    number: "+420111000001"
    naptr:
      - {order: 100, preference: 10, service: E2U+sip, uri: 'sip:+\\1@example.net'}
      - {order: 100, preference: 20, service: E2U+h323, uri: 'h323:\\1@gk.example.net'}
  - tree: public
    prefix: "+4201112"
    naptr: [{order: 100, preference: 10, service: E2U+sip, uri: 'sip:+\\1@example.net'}]
routes:
  - {at: core, prefix: "+420222", to: [desk, gw]}
  - {at: gw, arriving: sip, prefix: "+", to: gk}
  - {at: gk, prefix: "+420", to: pbx}
domains:
  example.net:
    hosts: {ns.example.net: 192.0.2.53}
    services: [{service: sip, transport: udp, priority: 10, weight: 5, port: 5060, target: desk.example.net}]
tests:
  - {number: "+420111000001", via: public, ends_at: desk}
"""
"""A plan in which nothing is wrong; tests replace parts of it."""


def changed(*replacements: tuple[str, str]) -> str:
    """``BASE`` with parts replaced; each of them must be there once."""
    text = BASE
    for old, new in replacements:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def book(*replacements: tuple[str, str]) -> PlanDocument:
    return loads(changed(*replacements), "plan.yaml")


def network(*replacements: tuple[str, str]) -> PlanNetwork:
    return PlanNetwork(book(*replacements), DAY)


def ready_network(name: str) -> PlanNetwork:
    return PlanNetwork(load(ready.FOLDER / f"{name}.yaml"), DAY)
