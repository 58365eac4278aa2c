"""Numbers and ranges: lengths, owners, validity."""

from __future__ import annotations

from collections.abc import Iterator

from weirlab.numbering.checking.findings import PlanFinding, error, line, warning
from weirlab.numbering.plan.model import ValidityPeriod
from weirlab.numbering.plan.values import MOST_DIGITS
from weirlab.numbering.routing import PlanNetwork
from weirlab.scenario.document import Location


def too_long(network: PlanNetwork) -> Iterator[PlanFinding]:
    """International numbers have at most 15 digits (E.164, 6.1)."""
    at = network.book.at
    for text, location in _numbers(network):
        if (digits := len(text) - 1) > MOST_DIGITS:
            yield error(
                "too long",
                at(*location),
                f"{text} has {digits} digits, but an international number has at most {MOST_DIGITS} (E.164)",
                "shorten it: country code and national number, without a prefix for dialling abroad",
            )
    for i, numbers in network.each_range():
        if numbers.digits is not None and numbers.digits > MOST_DIGITS:
            yield error(
                "too long",
                at("ranges", i, "digits"),
                f"numbers of {numbers.digits} digits, but an international number has at most {MOST_DIGITS} "
                "(E.164)",
                "count the digits of a whole number, country code included, without +",
            )


def _numbers(network: PlanNetwork) -> Iterator[tuple[str, Location]]:
    """All numbers and prefixes of the plan, with their locations."""
    plan = network.plan
    for i, numbers in network.each_range():
        yield numbers.prefix, ("ranges", i, "prefix")
    for i, entry in network.each_entry():
        yield f"+{entry.digits}", ("enum", i, entry.key)
    for i, route in network.each_route():
        yield route.prefix, ("routes", i, "prefix")
    for i, test in enumerate(plan.tests):
        if test.number.startswith("+"):
            yield test.number, ("tests", i, "number")
    for name, organisation in plan.organisations.items():
        for i, contact in enumerate(organisation.contacts):
            if contact.phone is not None:
                yield contact.phone, ("organisations", name, "contacts", i, "phone")


def lengths(network: PlanNetwork) -> Iterator[PlanFinding]:
    """Numbers are as long as their range says, and prefixes are shorter than numbers."""
    plan, at = network.plan, network.book.at
    for i, entry in network.each_entry():
        found = network.ranges.longest(entry.digits)
        if found is None or (wanted := plan.ranges[found[1]].digits) is None:
            continue
        have = len(entry.digits)
        if (entry.number is not None and have != wanted) or have > wanted:
            kind = "number" if entry.number is not None else "prefix"
            yield error(
                "wrong length",
                at("enum", i, entry.key),
                f"the {kind} +{entry.digits} has {have} digits, but numbers of the range "
                f"{plan.ranges[found[1]].prefix} have {wanted}",
                "correct the number, or digits of the range",
            )
    for i, route in network.each_route():
        found = network.ranges.longest(route.prefix[1:])
        wanted = plan.ranges[found[1]].digits if found else None
        if wanted is not None and len(route.prefix) - 1 > wanted:
            yield error(
                "wrong length",
                at("routes", i, "prefix"),
                f"the prefix {route.prefix} has {len(route.prefix) - 1} digits, but whole numbers of its "
                f"range have {wanted}, so it matches none",
                "correct the prefix, or digits of the range",
            )


def owners(network: PlanNetwork) -> Iterator[PlanFinding]:
    """A number has one owner; a part of a range may be delegated."""
    plan, at = network.plan, network.book.at
    first: dict[str, list[int]] = {}
    for i, numbers in network.each_range():
        others = first.setdefault(numbers.prefix, [])
        for other in others:
            known = plan.ranges[other]
            if known.meets(numbers):
                where = line(at("ranges", other))
                told = f"range {numbers.prefix} is already listed in {where}"
                if known.owner != numbers.owner:
                    told = f"range {numbers.prefix} belongs to {numbers.owner} here, "
                    told += f"and to {known.owner} in {where}"
                yield error("owners", at("ranges", i), told, "decide who owns it, and remove one of the two")
                break
        others.append(i)
    for i, numbers in network.each_range():
        outer = network.ranges.covering(numbers.prefix[1:])
        around = plan.ranges[outer[1]] if outer else None
        if numbers.delegated_by is not None and (around is None or around.owner != numbers.delegated_by):
            belongs = (
                f"{around.prefix} around it belongs to {around.owner}" if around else "no range contains it"
            )
            yield error(
                "owners",
                at("ranges", i, "delegated_by"),
                f"range {numbers.prefix} is said to be delegated by {numbers.delegated_by}, but {belongs}",
                "correct delegated_by, or add the larger range",
            )
        elif numbers.delegated_by is None and outer and around and around.owner != numbers.owner:
            yield error(
                "owners",
                at("ranges", i),
                f"range {numbers.prefix} of {numbers.owner} lies within {around.prefix} of {around.owner} "
                f"({line(at('ranges', outer[1]))}), which did not delegate it",
                f"add delegated_by: {around.owner}, or correct the owner",
            )


def foreign_entries(network: PlanNetwork) -> Iterator[PlanFinding]:
    """An entry's owner is that of its range."""
    for i, entry in network.each_entry():
        owner = network.owner(entry.digits)
        if entry.owner is not None and owner is not None and owner != entry.owner:
            yield error(
                "owners",
                network.book.at("enum", i),
                f"+{entry.digits} is an entry of {entry.owner}, but the number belongs to {owner}",
                "remove the entry, correct its owner, or delegate the range",
            )


def unowned(network: PlanNetwork) -> Iterator[PlanFinding]:
    """If the plan has ranges, a number lies in one or names its owner, and a prefix lies in or around one."""
    plan, at = network.plan, network.book.at
    if not plan.ranges:
        return
    listed: list[tuple[str, Location]] = [
        *((entry.digits, ("enum", i)) for i, entry in network.each_entry() if entry.owner is None),
        *((route.prefix[1:], ("routes", i)) for i, route in network.each_route()),
    ]
    for digits, location in listed:
        if digits not in network.towards_ranges and network.ranges.longest(digits) is None:
            yield warning(
                "unowned",
                at(*location),
                f"+{digits} lies in no range of this plan, which does not tell whose it is",
                "add its range, with the owner",
            )


def validity(network: PlanNetwork) -> Iterator[PlanFinding]:
    """Nothing has expired, or has dates that exclude every day."""
    at, day = network.book.at, network.day
    sections: tuple[tuple[str, str, Iterator[tuple[int, ValidityPeriod]]], ...] = (
        ("ranges", "range", network.each_range()),
        ("enum", "entry", network.each_entry()),
        ("routes", "route", network.each_route()),
    )
    for section, what, items in sections:
        for i, each in items:
            if each.valid_until is None:
                continue
            if each.valid_from is not None and each.valid_from > each.valid_until:
                yield error(
                    "validity",
                    at(section, i, "valid_until"),
                    f"the {what} is valid from {each.valid_from} until {each.valid_until}, which is never",
                    "swap the two dates",
                )
            elif each.expired(day):
                make, told = (warning, "it is ignored")
                if section == "ranges":
                    make, told = error, "its numbers no longer have an owner"
                yield make(
                    "expired",
                    at(section, i, "valid_until"),
                    f"the {what} expired on {each.valid_until}: {told}",
                    "extend valid_until, or remove it",
                )
