"""Lists rules of nft as nft understands them, by loading them in a network namespace that ends with that."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from weirlab.base import programs
from weirlab.base.errors import InputError, MissingCapability
from weirlab.lab.dut import tool
from weirlab.rules.nft.listing import RuleKey, Texts
from weirlab.rules.nft.written import interfaces, named_chains, rule_texts

LOAD: Final = ("nft", "-f", "-")
LOAD_JSON: Final = ("nft", "-j", "-f", "-")
_LISTINGS: Final = (("nft", "-j", "-n", "list", "ruleset"), ("nft", "-a", "list", "ruleset"))
_BYTECODE: Final = ("nft", "--debug=netlink", "list", "ruleset")
_HIDDEN: Final = "l3proto"
"""What nft does not list where it seems implied. But packets that are not tracked have none."""
_RULE: Final = re.compile(r"^(?P<table>\w+ \S+) \S+ (?P<handle>\d+)(?: \d+)? *$")
_SEPARATOR: Final = "\f"
_REFUSED: Final = 60
"""Exit code of the script if nft refuses the rules."""
_TIMED_OUT: Final = 124
"""Exit code of timeout(1). Rules may make nft wait for ever (``monitor``)."""


@dataclass(frozen=True)
class NftListing:
    """Rules as nft lists them after loading; chains without a name have one."""

    json: str
    text: str
    renamed: bool = False
    """Whether chains have got names."""
    hidden: frozenset[RuleKey] = frozenset()
    """Rules with a comparison that is not listed."""

    @property
    def texts(self) -> Texts:
        """The rules as written, by table and handle."""
        return rule_texts(self.text)


def list_rules(
    text: str, source: str, command: Sequence[str] = LOAD, *, located: Callable[[str], str] = str
) -> NftListing:
    """Load ``text`` by ``command`` and list it; ``source`` is its name in messages, and ``located`` puts
    other places into those of nft.

    Interfaces that the rules need exist while they are loaded. Ordinary users may load rules as well, where
    the kernel lets them have a user namespace.

    Raises
    ------
    InputError
        nft refuses the rules.
    MissingCapability
        nft is not installed, or no namespace can be made.
    """
    names = interfaces(text)
    listed = _listed(text, source, command, names, located)
    # The JSON of nft has no chains without a name.
    named = named_chains(listed.text)
    if named == listed.text:
        return listed
    if listed.hidden:
        raise InputError(
            f"{source}: 'ct {_HIDDEN}' is not possible beside chains without a name; give these names, or "
            f"compare 'meta nfproto'"
        )
    return replace(_listed(named, source, LOAD, names, str), renamed=True)


def _listed(
    text: str, source: str, command: Sequence[str], names: Sequence[str], located: Callable[[str], str]
) -> NftListing:
    programs.located(command)
    listings = (*_LISTINGS, _BYTECODE) if _HIDDEN in text else _LISTINGS
    script = "; ".join(
        [
            # Of a pair, the kernel names the other end.
            'for name; do ip link add "$name" type veth; done 2>/dev/null',
            f"timeout {tool.MOST_S} {shlex.join(command)}",
            f"code=$?; [ $code != {_TIMED_OUT} ] || echo 'did not end within {tool.MOST_S} s' >&2",
            f"[ $code = 0 ] || exit {_REFUSED}",
            *(f"{shlex.join(listing)} || exit; printf '\\f'" for listing in listings),
        ]
    )
    user = () if os.geteuid() == 0 else ("--map-root-user",)
    done: subprocess.CompletedProcess[str] = programs.run(
        ["unshare", *user, "--net", "--", "sh", "-c", script, "sh", *names],
        input=text,
        capture_output=True,
        text=True,
        errors="replace",
        env=programs.environment(LC_ALL="C"),
    )
    if done.returncode == _REFUSED:
        raise InputError(tool.refusal(LOAD[0], located(done.stderr), text, source))
    parts = done.stdout.split(_SEPARATOR)
    if done.returncode != 0 or len(parts) != len(listings) + 1:
        why = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise MissingCapability(
            f"{source}: nft has to load these rules in a network namespace before they can be read, which "
            f"does not work here ({why}); run as root, or give the output of nft -j list ruleset"
        )
    return NftListing(parts[0], parts[1], hidden=_hidden(parts[2]))


def _hidden(bytecode: str) -> frozenset[RuleKey]:
    """Rules that load the protocol of a connection's addresses."""
    found: set[RuleKey] = set()
    rule: RuleKey | None = None
    for line in bytecode.splitlines():
        if match := _RULE.match(line):
            rule = match["table"], int(match["handle"])
        elif rule is not None and line.startswith("  [ ct load l3protocol"):
            found.add(rule)
    return frozenset(found)
