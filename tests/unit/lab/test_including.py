"""Files that rules of nft include: only those below given folders, and never quoted."""

from __future__ import annotations

from pathlib import Path

import pytest

from weirlab.base.errors import InputError
from weirlab.base.files import HOST_FILES, NO_FILES
from weirlab.lab.dut.rulesets.listing import WholeText, located, with_included

SECRET = "root:secret:19000:0:99999:7:::\n"


@pytest.fixture
def office(tmp_path: Path) -> Path:
    """A folder with files to include, another one beside it, and a secret outside of both."""
    folder = tmp_path / "office"
    (folder / "rules.d").mkdir(parents=True)
    (folder / "lan.nft").write_text("define LAN = lan0\n")
    (folder / "rules.d" / "b.nft").write_text("udp dport 2 accept")
    (folder / "rules.d" / "a.nft").write_text("udp dport 1 accept\n# the end\n")
    (folder / "rules.d" / ".hidden.nft").write_text("drop\n")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "common.nft").write_text('include "nested.nft"\n')
    (tmp_path / "shared" / "nested.nft").write_text("define X = 1\n")
    (tmp_path / "shadow").write_text(SECRET)
    return folder


def whole(office: Path, text: str, *folders: Path) -> WholeText:
    return with_included(office / "main.nft", text, folders, HOST_FILES)


def test_files_take_the_place_of_their_names_in_alphabetical_order(office: Path) -> None:
    found = whole(
        office, 'include "lan.nft"\ntable ip t {\n chain c {\n  include "rules.d/*.nft"; drop\n }\n}\n'
    )
    assert " ".join(found.text.split()) == (
        "define LAN = lan0 table ip t { chain c { udp dport 1 accept # the end udp dport 2 accept drop } }"
    )
    assert [path.name for path in found.files] == ["lan.nft", "a.nft", "b.nft"]
    assert len(found.lines) == found.text.count("\n")
    assert found.text.splitlines()[-1] == "}"
    last = found.line(len(found.lines))
    assert last is not None
    assert (last.number, last.own) == (6, True)


def test_every_line_is_known_by_its_file_and_number(office: Path) -> None:
    found = whole(office, 'define A = 1\ninclude "rules.d/a.nft"\nudp dport 3 accept\n')
    places = {
        text.strip(): (Path(line.file).name, line.number)
        for text, line in zip(found.text.splitlines(), found.lines, strict=True)
        if text.strip()
    }
    assert places == {
        "define A = 1": ("main.nft", 1),
        "udp dport 1 accept": ("a.nft", 1),
        "# the end": ("a.nft", 2),
        "udp dport 3 accept": ("main.nft", 3),
    }


@pytest.mark.parametrize("name", ["common.nft", "{shared}/common.nft"])
def test_other_folders_are_searched_if_they_are_given(office: Path, name: str) -> None:
    shared = office.parent / "shared"
    text = f'include "{name.format(shared=shared)}"\n'
    assert "define X = 1" in whole(office, text, shared).text
    with pytest.raises(InputError, match=r"main\.nft, line 1: include .* --include DIR"):
        whole(office, text)


@pytest.mark.parametrize(
    "name", ["{root}/shadow", "../shadow", "./../shadow", "rules.d/../../shadow", "link.nft", "lin*"]
)
def test_nothing_outside_of_the_folders_is_opened_or_quoted(office: Path, name: str) -> None:
    (office / "link.nft").symlink_to(office.parent / "shadow")
    with pytest.raises(InputError, match=r"main\.nft, line 2: include .*: the file is not in ") as refusal:
        whole(office, f'define A = 1\ninclude "{name.format(root=office.parent)}"\n')
    assert "secret" not in str(refusal.value)


def test_a_folder_that_is_a_link_is_the_folder_that_it_names(office: Path) -> None:
    (office.parent / "alias").symlink_to(office)
    text = with_included(office.parent / "alias" / "main.nft", 'include "lan.nft"\n', (), HOST_FILES).text
    assert "lan0" in text


def test_a_missing_file_is_an_error_and_a_pattern_without_matches_is_none(office: Path) -> None:
    assert whole(office, 'include "none*.nft"\ndefine A = 1\n').text.split() == ["define", "A", "=", "1"]
    with pytest.raises(InputError, match=r"line 1: include .none\.nft.: there is no such file in "):
        whole(office, 'include "none.nft"\n')


def test_names_in_included_files_are_not_quoted(office: Path) -> None:
    (office / "lan.nft").write_text('\ninclude "secret-name"\n')
    with pytest.raises(InputError, match=r"lan\.nft, line 2: include: there is no such file") as refusal:
        whole(office, 'include "lan.nft"\n')
    assert "secret-name" not in str(refusal.value)


def test_a_file_that_includes_itself_is_refused(office: Path) -> None:
    (office / "lan.nft").write_text('include "lan.nft"\n')
    with pytest.raises(InputError, match="more than 16 files include each other"):
        whole(office, 'include "lan.nft"\n')


def test_words_in_strings_and_comments_include_nothing(office: Path) -> None:
    text = '# include "x"\nadd rule t c comment "please include "\ntable ip include_x { }\n'
    assert whole(office, text).text == text


def test_without_the_right_nothing_is_opened(office: Path) -> None:
    with pytest.raises(InputError, match=NO_FILES.refusal):
        with_included(office / "main.nft", 'include "lan.nft"\n', (), NO_FILES)


def test_messages_name_the_file_and_line_and_quote_only_the_users_own_file(office: Path) -> None:
    found = whole(office, 'include "rules.d/a.nft"\nudp dprt 3\n')
    lines = found.text.splitlines()
    own, included = lines.index("udp dprt 3") + 1, lines.index("udp dport 1 accept") + 1
    message = (
        f"/dev/stdin:{included}:1-3: Error: unknown identifier 'secret'\n  udp secret\n  ^^^\n"
        f"/dev/stdin:{own}:5-8: Error: syntax error, unexpected string\nudp dprt 3\n    ^^^^\n"
    )
    assert located(message, found).splitlines() == [
        f"{office}/rules.d/a.nft:1:1-3: Error: unknown identifier (a name)",
        "/dev/stdin:2:5-8: Error: syntax error, unexpected string",
        "udp dprt 3",
        "    ^^^^",
    ]


@pytest.mark.parametrize("name", ["../sha*", "{root}/*", "/etc/nftables.d/*.nft"])
def test_a_pattern_for_files_elsewhere_includes_none_and_says_so(office: Path, name: str) -> None:
    wanted = name.format(root=office.parent)
    main = office / "main.nft"
    found = with_included(main, f'table inet f {{\n include "{wanted}"\n}}\n', [], HOST_FILES)
    assert found.text == "table inet f {\n \n\n}\n"
    assert found.files == ()
    (note,) = found.left_out
    assert note == f"{main}, line 2: include '{wanted}': not included; name its folder with --include DIR"
