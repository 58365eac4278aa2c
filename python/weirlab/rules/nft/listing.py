"""Rulesets from the output of ``nft -j list ruleset`` (libnftables-json(5))."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from weirlab.base.errors import InputError
from weirlab.rules.chains import Chain, ChainKey, Rule, Ruleset
from weirlab.rules.nft.statements import Objects, is_count, rules
from weirlab.rules.packets import Family

HOOKS: Final = ("prerouting", "forward", "postrouting")
"""Hooks that a forwarded packet passes, in order."""
_FAMILIES: Final[dict[str, tuple[Family, ...]]] = {"ip": (4,), "ip6": (6,), "inet": (4, 6)}
_FLAGS_OF_CHANGE: Final = frozenset({"dynamic", "timeout"})

RuleKey = tuple[str, int]
"""A rule by its table and handle."""
Texts = Mapping[RuleKey, str]
"""Rules as written, by table (``inet filter``) and handle."""


@dataclass
class _Table:
    """What belongs to a table, as far as it concerns rules."""

    title: str
    families: tuple[Family, ...]
    chains: list[dict[str, Any]] = field(default_factory=list)
    rules: list[dict[str, Any]] = field(default_factory=list)
    sets: list[dict[str, Any]] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)


def nftables_path(
    text: str,
    where: str = "the ruleset",
    texts: Texts | None = None,
    *,
    listed: bool = True,
    hidden: Collection[RuleKey] = (),
) -> list[Ruleset]:
    """Read the base chains that forwarded packets enter, in order; rules need no counters.

    Parameters
    ----------
    text:
        The output of ``nft -j list ruleset``.
    texts:
        The rules as written, for messages.
    listed:
        Whether to use the elements of named sets and maps. Other programs may change these at any time.
    hidden:
        Rules that compare the protocol of a connection's addresses, which nft does not list.

    Raises ``InputError`` if it is not such an output.
    """
    found: list[Ruleset] = []
    for table in _tables(text, where):
        chains = _chains(table, texts or {}, listed, hidden)
        for chain in table.chains:
            if chain.get("hook") in HOOKS and chain.get("type") == "filter":
                found.append(
                    Ruleset(
                        str(chain["name"]),
                        chains,
                        "nft",
                        table=table.title,
                        families=table.families,
                        hook=str(chain["hook"]),
                        priority=_priority(chain),
                    )
                )
    # Of chains with one priority, packets enter the newest first (nf_hook_entries_grow of netfilter/core.c).
    found.reverse()
    return sorted(found, key=lambda each: (HOOKS.index(each.hook), each.priority))


def arrivals(text: str) -> dict[ChainKey, list[int]]:
    """How many packets came to each rule and to the end of each chain, by table and chain; from the listing
    of rules that :func:`weirlab.rules.nft.written.counting` has made."""
    found: dict[ChainKey, list[int]] = {}
    numbers: dict[ChainKey, int] = {}
    for kind, each in _objects(text, "the listing"):
        if kind != "rule":
            continue
        key = f"{each.get('family')} {each.get('table')}", str(each.get("chain"))
        number = numbers[key] = numbers.get(key, 0) + 1
        # Every other rule counts.
        match each.get("expr"):
            case [{"counter": {"packets": int(packets)}}] if number % 2:
                found.setdefault(key, []).append(packets)
    return found


def rule_counters(text: str) -> list[int | None]:
    """Packets by the counter of each rule in the output of ``nft -j list chain``; None if it has none."""
    return [
        next((packets for statement in each["expr"] if (packets := _packets(statement)) is not None), None)
        for kind, each in _objects(text, "the listing")
        if kind == "rule" and isinstance(each.get("expr"), list)
    ]


def _packets(statement: object) -> int | None:
    match statement:
        case {"counter": {"packets": int(packets)}}:
            return packets
    return None


def _tables(text: str, where: str) -> list[_Table]:
    found: dict[tuple[str, str], _Table] = {}
    dormant: set[tuple[str, str]] = set()
    for kind, each in _objects(text, where):
        family, name = str(each.get("family")), str(each.get("name" if kind == "table" else "table"))
        if family not in _FAMILIES:
            continue
        table = found.setdefault((family, name), _Table(f"{family} {name}", _FAMILIES[family]))
        match kind:
            # nft 1.0.6 gives the name of the table in place of the flag.
            case "table" if {"dormant", name} & set(_strings(each.get("flags"))):
                dormant.add((family, name))
            case "chain" if isinstance(each.get("name"), str):
                table.chains.append(each)
            case "rule" if isinstance(each.get("expr"), list):
                table.rules.append(each)
            case "set" | "map" if isinstance(each.get("name"), str):
                table.sets.append(each)
            case "counter" if is_count(each.get("packets")):
                table.counters[str(each.get("name"))] = each["packets"]
    return [table for key, table in found.items() if key not in dormant]


def statements_of(text: str) -> dict[ChainKey, list[list[Any]]]:
    """The statements of every rule of a listing, by table and chain."""
    found: dict[ChainKey, list[list[Any]]] = {}
    for kind, each in _objects(text, "the listing"):
        if kind == "rule":
            found.setdefault((f"{each['family']} {each['table']}", each["chain"]), []).append(each["expr"])
    return found


def _objects(text: str, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a listing with their kinds."""
    try:
        document = json.loads(text)
        listed = document["nftables"]
    except (ValueError, RecursionError, TypeError, KeyError) as error:
        raise InputError(f"{where} is not the output of nft -j list ruleset: {error}") from error
    for each in listed if isinstance(listed, list) else []:
        # Of a list of commands (nft -j monitor, or written by hand), those that add.
        inside = each.get("add", each) if isinstance(each, dict) else None
        if isinstance(inside, dict) and len(inside) == 1:
            kind, described = next(iter(inside.items()))
            if isinstance(described, dict):
                yield kind, described


def _chains(table: _Table, texts: Texts, listed: bool, hidden: Collection[RuleKey]) -> dict[str, Chain]:
    objects = _named(table, listed)
    found: dict[str, list[Rule]] = {str(chain["name"]): [] for chain in table.chains}
    numbers: dict[str, int] = {}
    for each in table.rules:
        name = str(each.get("chain"))
        if name not in found:
            continue
        numbers[name] = numbers.get(name, 0) + 1
        handle = each.get("handle") if isinstance(each.get("handle"), int) else None
        comment = str(each.get("comment") or "")
        words = texts.get((table.title, handle), "") if handle is not None else ""
        found[name] += rules(
            each["expr"],
            objects,
            "ct l3proto" if (table.title, handle) in hidden else "",
            text=words or json.dumps([one for one in each["expr"] if _packets(one) is None]),
            number=numbers[name],
            handle=handle,
            comment=comment,
        )
    known = frozenset(found)
    policies = {str(chain["name"]): _policy(chain) for chain in table.chains}
    return {
        name: Chain(name, tuple(_checked(rule, known) for rule in listed_rules), policies[name])
        for name, listed_rules in found.items()
    }


def _checked(rule: Rule, chains: frozenset[str]) -> Rule:
    if rule.jump is None or rule.jump in chains:
        return rule
    return replace(rule, unclear="; ".join(filter(None, (rule.unclear, f"there is no chain {rule.jump}"))))


def _named(table: _Table, listed: bool) -> Objects:
    used: dict[str, int] = {}
    changed: set[str] = set()
    for rule in table.rules:
        for statement in rule["expr"]:
            match statement:
                case {"counter": str(name)}:
                    used[name] = used.get(name, 0) + 1
                case {"set": {"set": str(name)}} | {"map": {"map": str(name)}}:
                    changed.add(name.removeprefix("@"))
    counters = {name: packets if used.get(name) == 1 else None for name, packets in table.counters.items()}
    elements = {
        str(set_["name"]): _elements(set_)
        for set_ in table.sets
        if listed and set_["name"] not in changed and not _FLAGS_OF_CHANGE & set(_strings(set_.get("flags")))
    }
    counting = {str(set_["name"]): kind for set_ in table.sets if (kind := _counting(set_))}
    return Objects(counters, elements, counting)


def _elements(named: Mapping[str, Any]) -> Sequence[Any]:
    listed = named.get("elem")
    return listed if isinstance(listed, list) else []


def _counting(named: Mapping[str, Any]) -> str:
    """What a set or map does when a packet is looked up in it: ``counter``, ``limit``, or nothing."""
    statements = named.get("stmt")
    listed = statements if isinstance(statements, list) else []
    kinds = [kind for statement in listed if isinstance(statement, dict) for kind in statement]
    for element in _elements(named):
        value = element[0] if isinstance(element, list) and element else element
        if isinstance(value, dict) and isinstance(value.get("elem"), dict):
            kinds += [key for key in value["elem"] if key in ("counter", "limit", "quota", "ct count")]
    others = [kind for kind in kinds if kind != "counter"]
    return str(others[0]) if others else "counter" if kinds else ""


def _policy(chain: Mapping[str, Any]) -> str | None:
    """None for a chain that is only called."""
    return str(chain.get("policy") or "accept") if "hook" in chain else None


def _priority(chain: Mapping[str, Any]) -> int:
    found = chain.get("prio")
    return found if isinstance(found, int) else 0


def _strings(value: Any) -> list[str]:
    listed = value if isinstance(value, list) else [value]
    return [each for each in listed if isinstance(each, str)]
