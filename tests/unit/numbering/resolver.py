"""A small resolver over the text of a zone, independent of the plan: RFC 1034, 4592 and 6116."""

from __future__ import annotations

import re

import dns.name
import dns.rdatatype
import dns.zone


class Resolver:
    """Answers as a server with this zone would."""

    def __init__(self, text: str) -> None:
        self.zone = dns.zone.from_text(text, relativize=False)
        self.existing = {
            dns.name.Name(name.labels[cut:]) for name in self.zone.nodes for cut in range(len(name.labels))
        }

    def naptr(self, number: str, suffix: str) -> list[tuple[int, int, str, str]]:
        """Order, preference, service and URI for ``number``, in the order in which a client tries them."""
        owner = dns.name.from_text(".".join([*reversed(number.removeprefix("+")), suffix]))
        node = self.zone.nodes.get(owner)
        if node is None:
            if owner in self.existing:
                return []
            encloser = owner
            while encloser not in self.existing:
                encloser = encloser.parent()
            node = self.zone.nodes.get(dns.name.Name((b"*", *encloser.labels)))
        rdataset = node.get_rdataset(self.zone.rdclass, dns.rdatatype.NAPTR) if node is not None else None
        found = []
        for record in sorted(rdataset or (), key=lambda each: (each.order, each.preference)):
            assert (record.flags, record.replacement) == (b"u", dns.name.root)
            text = record.regexp.decode()
            _, pattern, replacement, _ = text.split(text[0])
            match = re.search(pattern, number)
            assert match
            found.append(
                (record.order, record.preference, record.service.decode(), match.expand(replacement))
            )
        return found
