"""Where rules stand in text written for nft, and how they are written; what they mean is left to nft.

nft's JSON has neither lines nor the rules as written, and leaves out chains without a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from weirlab.rules.chains import ChainKey

_TOKEN: Final = re.compile(r'"[^"]*"|#[^\n]*|\\\n|[{};\n]|[^\s{};"#\\]+|[\\"]')
_HANDLE: Final = re.compile(r"#\s*handle\s+(\d{1,20})\s*$")
_PROPERTIES: Final = frozenset({"type", "policy", "comment", "flags", "device", "devices"})
"""First words of statements in a chain that are no rules."""
_FAMILIES: Final = frozenset({"ip", "ip6", "inet", "arp", "bridge", "netdev"})
_LISTED_CHAIN: Final = re.compile(r"^\tchain .*?^\t(?P<end>\})", re.S | re.M)
_NAMELESS: Final = re.compile(r'"[^"]*"|\b(?:jump|goto)\s+(?P<block>\{)')


@dataclass(frozen=True)
class _Statement:
    """A rule in a text."""

    table: str
    chain: str
    chain_start: int
    """Where the text of its chain begins."""
    start: int
    end: int
    comment_end: int
    """Where the comment behind it ends, or it itself."""
    alone: bool
    """Whether the line ends behind it."""
    line: int
    handle: int | None


@dataclass
class _BraceBlock:
    """An open brace."""

    words: list[str]
    start: int


def written_places(text: str) -> dict[ChainKey, list[tuple[int, int | None]]]:
    """Line and handle of each rule, by chain; a chain that is written in several parts is left out."""
    return {
        key: [(statement.line, statement.handle) for statement in statements]
        for key, statements in _in_one_piece(text).items()
    }


def _in_one_piece(text: str) -> dict[ChainKey, list[_Statement]]:
    """The rules of each chain that is written in one part."""
    found: dict[ChainKey, list[_Statement]] = {}
    for statement in _statements(text):
        found.setdefault((statement.table, statement.chain), []).append(statement)
    return {key: listed for key, listed in found.items() if len({each.chain_start for each in listed}) == 1}


def rule_texts(text: str) -> dict[tuple[str, int], str]:
    """The rules in the output of ``nft -a list ruleset``, by table and handle."""
    return {
        (statement.table, statement.handle): " ".join(text[statement.start : statement.end].split())
        for statement in _statements(text)
        if statement.handle is not None
    }


def reordered_text(text: str, orders: Mapping[ChainKey, Sequence[int]]) -> str | None:
    """``text`` with the rules of some chains in a new order, everything else unchanged.

    Comments behind rules move with them. ``orders`` has, by table and chain, the present place, from 0, of
    the rule that comes k-th. None if a chain is not written in one part, or has another number of rules.
    """
    written = _in_one_piece(text)
    changes: list[tuple[int, int, str]] = []
    for key, order in orders.items():
        listed = written.get(key, [])
        if len(listed) != len(order):
            return None
        alone = all(each.alone for each in listed)
        ends = [each.comment_end if alone else each.end for each in listed]
        for place, source in enumerate(order):
            changes.append((listed[place].start, ends[place], text[listed[source].start : ends[source]]))
    for start, end, words in sorted(changes, reverse=True):
        text = text[:start] + words + text[end:]
    return text


def named_chains(text: str) -> str:
    """The output of ``nft list ruleset`` with a name for each chain that has none.

    The chain in the second rule of ``forward`` is called ``forward.2``.
    """
    while True:
        numbers: dict[ChainKey, int] = {}
        for statement in _statements(text):
            key = statement.table, statement.chain
            numbers[key] = numbers.get(key, 0) + 1
            block = _nameless(text, statement)
            if block is not None:
                start, end = block
                name = _unused(f"{statement.chain}.{numbers[key]}", text)
                body = text[start + 1 : end].strip("\n")
                text = (
                    f"{text[: statement.chain_start]}chain {name} {{\n{body}\n\t}}\n\t"
                    f"{text[statement.chain_start : start]}{name}{text[end + 1 :]}"
                )
                break
        else:
            return text


def counting(text: str) -> str:
    """The output of ``nft list ruleset`` with a rule in front of each one, and at the end of each chain, that
    counts how many packets come there; see :func:`weirlab.rules.nft.listing.arrivals`.

    All chains need a name, see :func:`named_chains`.
    """
    # A counter within the rule would come after comparisons that nft adds (``rt type`` is for IPv6).
    marks = [(statement.start, "counter\n\t\t") for statement in _statements(text)]
    marks += [(match.start("end"), "\tcounter\n\t") for match in _LISTED_CHAIN.finditer(text)]
    parts, at = [], 0
    for place, words in sorted(marks):
        parts += [text[at:place], words]
        at = place
    return "".join([*parts, text[at:]])


def _unused(name: str, text: str) -> str:
    while f"chain {name} " in text:
        name += "x"
    return name


def _nameless(text: str, statement: _Statement) -> tuple[int, int] | None:
    """Where the braces of a chain without a name stand in a rule."""
    for found in _NAMELESS.finditer(text, statement.start, statement.end):
        if found["block"]:
            depth = 0
            for token in _TOKEN.finditer(text, found.start("block"), statement.end):
                depth += (token[0] == "{") - (token[0] == "}")
                if not depth:
                    return found.start("block"), token.start()
    return None


def _statements(text: str) -> Iterator[_Statement]:
    """The rules in the chains of ``text``."""
    blocks: list[_BraceBlock] = []
    words: list[str] = []
    start, line, first_line, end, comment_end = 0, 1, 1, 0, 0
    handle: int | None = None
    for token in _TOKEN.finditer(text):
        word = token[0]
        # Braces within a rule belong to it.
        inside = len(blocks) > 2 or (len(blocks) == 2 and bool(words))
        if words and word in ("}", ";", "\n") and len(blocks) <= 2:
            place = _place(blocks)
            if place is not None and words[0] not in _PROPERTIES:
                table, chain = place
                yield _Statement(
                    table,
                    chain,
                    chain_start=blocks[-1].start,
                    start=start,
                    end=end,
                    comment_end=max(end, comment_end),
                    alone=word == "\n",
                    line=first_line,
                    handle=handle,
                )
            words, handle, comment_end = [], None, 0
        if word == "{":
            blocks.append(_BraceBlock([] if inside else words, start))
            if inside:
                end = token.end()
            else:
                words = []
        elif word == "}":
            if blocks:
                blocks.pop()
            if inside:
                end = token.end()
        elif word.startswith("#"):
            if words and len(blocks) == 2:
                comment_end = token.end()
                handle = int(found[1]) if (found := _HANDLE.search(word)) else None
        elif word not in (";", "\n", "\\\n"):
            if not words:
                start, first_line = token.start(), line
            words.append(word)
            end = token.end()
        line += word.count("\n")


def _place(blocks: list[_BraceBlock]) -> tuple[str, str] | None:
    """Table and chain that are open."""
    if len(blocks) != 2:
        return None
    table, chain = (_after(block.words, word) for block, word in zip(blocks, ("table", "chain"), strict=True))
    if not table or len(chain) != 1:
        return None
    family = table[0] if len(table) == 2 and table[0] in _FAMILIES else "ip"
    return f"{family} {table[-1]}", chain[0]


def _after(words: list[str], kind: str) -> list[str]:
    """The words that follow ``kind``, perhaps after a command."""
    return words[words.index(kind) + 1 :] if kind in words[:2] else []


_INTERFACES: Final = re.compile(
    r"""\b(?:iif|oif|device|devices)\b\s*(?:!=|==|=|vmap)?\s*(?P<one>\{[^}]*\}|\$\w+|"[^"]+"|[\w.@-]+)"""
    r"""|\biface_index\b[^}]*?\belements\s*=\s*(?P<set>\{[^}]*\})"""
)
_DEFINED: Final = re.compile(r"""\bdefine\s+(\w+)\s*=\s*(\{[^}]*\}|"[^"]+"|[\w.@-]+)""")
_VARIABLE: Final = re.compile(r"\$(\w+)")
MOST_WORDS: Final = 1 << 16
MOST_DEFINES: Final = 4
"""Defines within each other that are looked up."""
_NAME: Final = re.compile(r"[A-Za-z_][\w.@-]{0,14}")
MOST_INTERFACES: Final = 200


def interfaces(text: str) -> list[str]:
    """Names of interfaces that must exist before nft loads ``text``, and perhaps other words of it."""
    defined = dict(_DEFINED.findall(text))
    found: dict[str, None] = {}
    for each in _INTERFACES.finditer(text):
        words = each["one"] or each["set"]
        # A define may stand in a set, and in another define.
        for _ in range(MOST_DEFINES):
            words = _VARIABLE.sub(lambda name: defined.get(name[1], ""), words)[:MOST_WORDS]
        found |= dict.fromkeys(_NAME.findall(_VARIABLE.sub("", words)))
    return [name for name in found if name != "lo"][:MOST_INTERFACES]
