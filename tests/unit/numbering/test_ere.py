from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import itertools
import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from weirlab.numbering.ere import TAIL, BadExpression, MissingDigits, Pattern, Substitution
from weirlab.numbering.ere.syntax import Atom

_REG_EXTENDED = 1
_REG_ICASE = 2
_LIBRARY = ctypes.CDLL(ctypes.util.find_library("c"))


class _Span(ctypes.Structure):
    _fields_ = (("start", ctypes.c_int), ("end", ctypes.c_int))


def system_match(pattern: str, text: str, groups: int, flags: int = 0) -> tuple[str | None, ...] | None:
    """What the C library's regexec(3) matches, and its groups (None if unused): engines use it."""
    compiled = ctypes.create_string_buffer(512)
    if _LIBRARY.regcomp(compiled, pattern.encode(), _REG_EXTENDED | flags):
        raise ValueError(pattern)
    spans = (_Span * (groups + 1))()
    try:
        if _LIBRARY.regexec(compiled, text.encode(), groups + 1, spans, 0):
            return None
        return tuple(text[span.start : span.end] if span.start >= 0 else None for span in spans)
    finally:
        _LIBRARY.regfree(compiled)


ATOMS = st.sampled_from(["1", "2", ".", "[12]", "[^1]", "[0-9]", "[[:digit:]]", r"\+"])
PIECES = st.one_of(
    ATOMS, st.tuples(ATOMS, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{1,}"])).map("".join)
)
BRANCHES = st.lists(PIECES, min_size=1, max_size=4).map("".join)
GROUPED = st.lists(
    st.one_of(BRANCHES, st.lists(BRANCHES, min_size=1, max_size=3).map(lambda each: f"({'|'.join(each)})")),
    min_size=1, max_size=3,
).map("".join)  # fmt: skip
PATTERNS = st.tuples(st.sampled_from(["", "^"]), GROUPED, st.sampled_from(["", "$"])).map("".join)
NUMBERS = st.text("012", max_size=7).map(lambda digits: f"+{digits}")
REPEATS = st.sampled_from(["", "?", "{2}", "{1,2}", "{0,3}", "*", "+"])
NESTED = st.recursive(
    BRANCHES,
    lambda inner: st.lists(
        st.one_of(
            BRANCHES,
            st.tuples(st.lists(inner, min_size=1, max_size=3).map("|".join), REPEATS).map(
                lambda parts: f"({parts[0]}){parts[1]}"
            ),
        ),
        min_size=1, max_size=3,
    ).map("".join),
    max_leaves=6,
)  # fmt: skip


@settings(max_examples=300)
@given(PATTERNS, NUMBERS)
def test_the_match_and_its_groups_are_those_of_the_c_library(pattern: str, text: str) -> None:
    ours = Pattern(pattern)
    assert ours.match(text) == system_match(pattern, text, ours.groups)


@settings(max_examples=600)
@given(NESTED, st.sampled_from(["", "$"]), NUMBERS)
def test_groups_that_repeat_in_others_match_as_in_the_c_library(pattern: str, end: str, text: str) -> None:
    try:
        ours = Pattern(pattern + end)
    except BadExpression as refused:
        assume("repeats" not in str(refused))
        raise
    assert ours.match(text) == system_match(pattern + end, text, ours.groups)


@pytest.mark.parametrize("pattern", ["^[[:alpha:]]+([^a-k]*)z$", "(B|[c-d]x)+", "[^[:upper:]]{2}[X-]|-]"])
@pytest.mark.parametrize("text", ["aBcDZ", "bcXDxB", "Az-z", "]--X"])
@pytest.mark.parametrize("ignore_case", [False, True])
def test_letters_match_as_in_the_c_library(pattern: str, text: str, ignore_case: bool) -> None:
    ours = Pattern(pattern, ignore_case=ignore_case)
    assert ours.match(text) == system_match(pattern, text, ours.groups, _REG_ICASE if ignore_case else 0)


@pytest.mark.parametrize("name", ["alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print",
                                  "punct", "space", "upper", "xdigit"])  # fmt: skip
def test_classes_have_the_characters_of_the_c_library(name: str) -> None:
    ours = Pattern(f"[[:{name}:]]")
    for character in map(chr, range(1, 128)):
        assert ours.match(character) == system_match(ours.text, character, 0), character


BACKTRACKING = [
    r"^\+(.|.)*x$",
    r"^\+([0-9]|[0-9][0-9])*x$",
    r"(.?.?.?.?.?.?.?.?.?.?.?.?.?.?.?.?.?.?){9}x",
    "^" + ".*" * 60 + "x$",
    "^(" + "(.|..)" * 8 + "|...){0,9}x",
    "^" + "(.|.){0,13}" * 9 + "x",
]


@pytest.mark.parametrize("pattern", BACKTRACKING)
def test_an_expression_that_can_match_in_many_ways_takes_bounded_work(pattern: str) -> None:
    """Counted in characters compared, as a clock would be luck."""
    compared = 0

    class Counting(Pattern):
        def _accepts(self, atom: Atom, character: str) -> bool:
            nonlocal compared
            compared += 1
            return super()._accepts(atom, character)

    number = "+" + "1" * 26
    made = Counting(pattern)
    assert made.match(number) is None
    with contextlib.suppress(MissingDigits):
        made.match(f"{number}{TAIL}")
    # Written out, an expression has at most 255 characters; each may be compared once at each place.
    assert compared <= 12 * 255 * len(number)


def test_a_text_that_is_no_number_for_its_length_is_not_matched() -> None:
    assert Pattern("^.*$").match("1" * 64) is not None
    assert Pattern("^.*$").match("1" * 65) is None


def answer(pattern: Pattern, text: str) -> tuple[tuple[str | None, ...] | None, frozenset[str] | None]:
    """What is said of ``text``, or which digits must be known first."""
    try:
        return pattern.match(text), None
    except MissingDigits as asked:
        return None, asked.digits


@settings(max_examples=60)
@given(PATTERNS, st.text("012", max_size=3), st.sets(st.sampled_from("012")))
def test_what_is_said_of_a_tail_holds_for_every_number_with_it(
    pattern: str, known: str, others: set[str]
) -> None:
    compiled = Pattern(pattern)
    told = "".join(sorted(others))
    tails = [
        "".join(tail)
        for length in (1, 2, 3)
        for tail in itertools.product("0123", repeat=length)
        if tail[0] not in others
    ]
    said, needed = answer(compiled, f"+{known}{TAIL}{told}")
    if needed is not None:
        assert needed
        assert not needed & others
        return
    for tail in tails:
        expected = None if said is None else tuple(part and part.replace(TAIL + told, tail) for part in said)
        assert compiled.match(f"+{known}{tail}") == expected


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"\d+", r"character 1: \d is not POSIX; write [0-9]"),
        (r"^(?:1)", "character 3: (? is Perl syntax; POSIX has only plain groups"),
        ("(1*)*", "character 5: * repeats a repetition inside the group"),
        ("(1?)*", "character 5: * repeats a group that may be empty"),
        ("(1?|2)+", "character 7: + repeats a group that may be empty"),
        ("((.{9}){9}){9}", "its repetitions amount to 729 characters; at most 255"),
        ("(" * 21 + "1" + ")" * 21, "character 22: groups are nested more than 20 deep"),
        ("1" * 256, "it has 256 characters; a record takes at most 255"),
        ("1*?", "character 3: ? after a repetition"),
        ("*1", "character 1: * has nothing to repeat"),
        ("(1", "character 3: a ( without a )"),
        ("1)", "character 2: a ) without a ("),
        ("[1", "character 1: a [ without a ]"),
        ("[9-1]", "the range 9-1 goes backwards"),
        ("1|", "character 3: nothing is here"),
        ("1{2", "{ begins a repetition"),
        ("1{3,2}", "the bounds must rise"),
        ("^*", "* cannot repeat ^"),
        ("1\\", "a backslash at the end"),
        ("[[:digits:]]", "[:digits:] is not a character class"),
    ],
)
def test_what_posix_does_not_know_is_refused_with_its_place(pattern: str, reason: str) -> None:
    with pytest.raises(BadExpression, match=re.escape(reason)):
        Pattern(pattern)


@pytest.mark.parametrize(
    ("expression", "number", "result"),
    [
        (r"!^\+(.*)$!sip:\1@cesnet.cz!", "+420224355289", "sip:420224355289@cesnet.cz"),
        (r"!^\+420(...)(.*)$!sip:\2-\1@x!", "+420224355", "sip:355-224@x"),
        (r"/^.*$/sip:info@x/", "+420", "sip:info@x"),
        (r"!^\+421(.*)$!sip:\1@x!", "+420", None),
        (r"#^(\+42[0-9]).*$#tel:\1#", "+420123", "tel:+420"),
        (r"!^.*$!sip:a\!b@x!", "+420", "sip:a!b@x"),
        (r"!20!sip:middle@x!", "+420123", "sip:middle@x"),
    ],
)
def test_a_substitution_gives_the_replacement_alone(expression: str, number: str, result: str | None) -> None:
    assert Substitution.parse(expression).apply(number) == result


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("!", "it is too short"),
        ("1a1b1", "'1' cannot be the delimiter"),
        ("!^.*$!sip:a@b", "the delimiter ! appears 2 times instead of three"),
        ("!^.*$!sip:a@b!x", "'x' after the last delimiter"),
        (r"!^.*$!sip:\1@b!", r"\1 in the replacement, but the pattern has no groups"),
        (r"!^(.*)$!sip:\0@b!", r"\0 in the replacement; only \1 to \9"),
    ],
)
def test_a_substitution_that_is_none_is_refused(expression: str, reason: str) -> None:
    with pytest.raises(BadExpression, match=re.escape(reason)):
        Substitution.parse(expression)


def test_the_usual_expression_takes_an_unknown_rest_along() -> None:
    usual = Substitution.parse(r"!^\+(.*)$!sip:\1@cesnet.cz!")
    assert usual.apply(f"+420{TAIL}37") == f"sip:420{TAIL}37@cesnet.cz"


def test_an_expression_that_looks_further_asks_for_the_digits_that_matter() -> None:
    with pytest.raises(MissingDigits) as asked:
        Pattern(r"^\+4201(.*)$").match(f"+420{TAIL}")
    assert asked.value.digits == {"1"}


@pytest.mark.parametrize(
    ("expression", "number", "unused"),
    [
        (r"!^\+(49)?(.*)$!sip:\1\2@x!", "+420", [1]),
        (r"!^\+(42)?(.*)$!sip:\1\2@x!", "+420", []),
        (r"!^\+(49)?(.*)$!sip:\2@x!", "+420", []),
        (r"!^\+(49)?(.*)$!sip:\1\2@x!", f"+4{TAIL}", [1]),
        (r"!^\+(4(9)|4(2))(.*)$!sip:\2\3\4@x!", "+420", [2]),
        (r"!^\+(4(9)|4(2))(.*)$!sip:\1\4@x!", f"+{TAIL}", []),
        (r"!^\+(.*)$!sip:\1@x!", f"+{TAIL}", []),
    ],
)
def test_references_to_groups_that_take_no_part_are_told(
    expression: str, number: str, unused: list[int]
) -> None:
    assert Substitution.parse(expression).unused(number) == unused
