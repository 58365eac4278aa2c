"""Matches and targets of iptables-extensions(8): what their options are, and what they depend on."""

from __future__ import annotations

from typing import Final

_TRANSPORT: Final = frozenset({"--sport", "--dport"})
_OF_PORTS: Final = frozenset({"--sports", "--dports", "--ports"})

PURE: Final[dict[str, frozenset[str]]] = {
    name: frozenset(options)
    for name, options in {
        "addrtype": ("--src-type", "--dst-type", "--limit-iface-in", "--limit-iface-out"),
        "ah": ("--ahspi", "--ahlen", "--ahres"),
        "bpf": ("--bytecode", "--object-pinned"),
        "cgroup": ("--path", "--cgroup"),
        "comment": ("--comment",),
        "connlabel": ("--label",),
        "connmark": ("--mark",),
        "conntrack": (
            "--ctstate", "--ctproto", "--ctorigsrc", "--ctorigdst", "--ctreplsrc", "--ctrepldst",
            "--ctorigsrcport", "--ctorigdstport", "--ctreplsrcport", "--ctrepldstport", "--ctstatus",
            "--ctexpire", "--ctdir",
        ),
        "cpu": ("--cpu",),
        "dccp": (*_TRANSPORT, "--dccp-types", "--dccp-option"),
        "devgroup": ("--src-group", "--dst-group"),
        "dscp": ("--dscp", "--dscp-class"),
        "dst": ("--dst-len", "--dst-opts"),
        "ecn": ("--ecn-tcp-cwr", "--ecn-tcp-ece", "--ecn-ip-ect"),
        "esp": ("--espspi",),
        "eui64": (),
        "frag": ("--fragid", "--fraglen", "--fragres", "--fragfirst", "--fragmore", "--fraglast"),
        "hbh": ("--hbh-len", "--hbh-opts"),
        "helper": ("--helper",),
        "hl": ("--hl-eq", "--hl-lt", "--hl-gt"),
        "icmp": ("--icmp-type",),
        "icmp6": ("--icmp-type",),
        "icmpv6": ("--icmp-type",),
        "ipcomp": ("--ipcompspi", "--compres"),
        "iprange": ("--src-range", "--dst-range"),
        "ipv6header": ("--header", "--soft"),
        "length": ("--length",),
        "mac": ("--mac-source",),
        "mark": ("--mark",),
        "mh": ("--mh-type",),
        "multiport": tuple(_OF_PORTS),
        "owner": ("--uid-owner", "--gid-owner", "--socket-exists", "--suppl-groups"),
        "physdev": (
            "--physdev-in", "--physdev-out", "--physdev-is-in", "--physdev-is-out", "--physdev-is-bridged",
        ),
        "pkttype": ("--pkt-type",),
        "policy": (
            "--dir", "--pol", "--strict", "--reqid", "--spi", "--proto", "--mode", "--tunnel-src",
            "--tunnel-dst", "--next",
        ),
        "realm": ("--realm",),
        "rpfilter": ("--loose", "--validmark", "--accept-local", "--invert"),
        "rt": ("--rt-type", "--rt-segsleft", "--rt-len", "--rt-0-res", "--rt-0-addrs", "--rt-0-not-strict"),
        "sctp": (*_TRANSPORT, "--chunk-types"),
        "socket": ("--nowildcard", "--transparent"),
        "state": ("--ctstate",),
        "string": ("--algo", "--from", "--to", "--string", "--hex-string", "--icase"),
        "tcp": (*_TRANSPORT, "--tcp-flags", "--syn", "--tcp-option"),
        "tcpmss": ("--mss",),
        "time": (
            "--datestart", "--datestop", "--timestart", "--timestop", "--monthdays", "--weekdays",
            "--kerneltz", "--utc", "--contiguous",
        ),
        "tos": ("--tos",),
        "ttl": ("--ttl-eq", "--ttl-lt", "--ttl-gt"),
        "u32": ("--u32",),
        "udp": tuple(_TRANSPORT),
        "udplite": tuple(_TRANSPORT),
    }.items()
}  # fmt: skip
"""Matches that depend on the packet and on what the kernel knows of it, with their options as in
iptables-save."""

COUNTING: Final = frozenset({
    "cluster", "connbytes", "connlimit", "dnat", "hashlimit", "limit", "nfacct", "quota", "rateest", "recent",
    "statistic",
})  # fmt: skip
"""Matches that depend on earlier packets."""

BARE: Final = frozenset({
    "dst", "eui64", "frag", "hbh", "ipv6header", "mh", "policy", "rpfilter", "rt", "socket",
})  # fmt: skip
"""Matches that compare a packet even without options, such as whether it has a header."""

DROPPING: Final = frozenset({"connlimit", "hashlimit", "recent"})
"""Those that drop a packet themselves if they cannot count it, before more is compared (``hotdrop``)."""

SETS: Final = frozenset({
    "--match-set", "--return-nomatch", "--update-counters", "--update-subcounters", "--packets-eq",
    "--packets-lt", "--packets-gt", "--bytes-eq", "--bytes-lt", "--bytes-gt",
})  # fmt: skip
"""Options of the match ``set``; looking up a packet may count it in the set."""

IMPLIED: Final = {
    "tcp": "tcp", "udp": "udp", "udplite": "udplite", "sctp": "sctp", "dccp": "dccp", "icmp": "icmp",
    "icmpv6": "icmp6", "ipv6-icmp": "icmp6", "esp": "esp", "ah": "ah",
}  # fmt: skip
"""The match that a protocol (``-p``) brings without being named."""

VERDICTS: Final = frozenset({"ACCEPT", "DROP", "REJECT"})
LEAVING: Final = frozenset({"RETURN", "QUEUE", "NFQUEUE"})
"""Other targets that end a packet's walk through the chain."""
EFFECTS: Final = frozenset({
    "AUDIT", "CHECKSUM", "CLASSIFY", "CONNMARK", "CONNSECMARK", "DSCP", "ECN", "HL", "LED", "LOG", "MARK",
    "NFLOG", "RATEEST", "SECMARK", "TCPMSS", "TCPOPTSTRIP", "TEE", "TOS", "TRACE", "TTL", "ULOG",
})  # fmt: skip
"""Targets after which the packet continues to the next rule, and that change nothing by which rules are told
apart."""
