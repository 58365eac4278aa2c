"""Passwords and sessions."""

from __future__ import annotations

import pytest

from weirlab.base.errors import InputError
from weirlab.numbering.managing.accounts import PASSWORDS, Accounts, NotSignedIn, WrongPassword
from weirlab.numbering.managing.register import Register

from .conftest import Clock

PASSWORD = "a weir holds water"


def actions(register: Register) -> list[str]:
    with register.database.reading() as on:
        return [each.action for each in on.events(most=20)]


def kept(register: Register, name: str) -> str:
    with register.database.reading() as on:
        account = on.account(name)
    assert account is not None
    return account.password


def test_a_password_is_kept_as_a_hash_with_a_salt_of_its_own(accounts: Accounts, register: Register) -> None:
    for name in ("ann", "bob"):
        accounts.add("test", name, PASSWORD, "one")
    assert kept(register, "ann") != kept(register, "bob")
    assert PASSWORD not in kept(register, "ann")


def test_a_hash_costs_what_is_recommended() -> None:
    assert PASSWORDS.hash("x" * 12).startswith("$argon2id$v=19$m=19456,t=2,p=1$")


def test_nobody_signs_in_with_a_hash_of_another_kind(accounts: Accounts, register: Register) -> None:
    accounts.add("test", "ann", PASSWORD, "one")
    with register.database.writing() as on:
        on.put_password("ann", "scrypt$65536$c2FsdA==$a2V5", "")
    with pytest.raises(NotSignedIn, match="wrong"):
        accounts.sign_in("ann", PASSWORD, "192.0.2.1")


def test_who_signs_in_has_a_session_until_it_ends(accounts: Accounts, clock: Clock) -> None:
    accounts.add("test", "ann", PASSWORD, "one")
    key = accounts.sign_in("ann", PASSWORD, "192.0.2.1")
    found = accounts.signed_in(key)
    assert found is not None
    assert (found.account.name, found.account.organisation) == ("ann", "one")
    assert accounts.signed_in(key + "x") is None
    assert accounts.signed_in("") is None
    clock.forward(hours=11)
    assert accounts.signed_in(key) is not None
    clock.forward(hours=2)
    assert accounts.signed_in(key) is None


def test_signing_out_and_removing_the_account_end_sessions(accounts: Accounts, register: Register) -> None:
    accounts.add("test", "ann", PASSWORD, "one")
    key, other = (accounts.sign_in("ann", PASSWORD, "192.0.2.1") for _ in range(2))
    accounts.sign_out(key)
    assert accounts.signed_in(key) is None
    assert accounts.signed_in(other) is not None
    accounts.remove("test", "ann")
    assert accounts.signed_in(other) is None
    assert actions(register)[:3] == ["removed account", "signed out", "signed in"]


def test_neither_keys_nor_passwords_are_in_the_database(accounts: Accounts, register: Register) -> None:
    accounts.add("test", "ann", PASSWORD, "one")
    key = accounts.sign_in("ann", PASSWORD, "192.0.2.1")
    from pathlib import Path

    kept = Path(register.database.shown).read_bytes()
    assert key.encode() not in kept
    assert PASSWORD.encode() not in kept


def test_of_many_failures_the_log_has_the_first_and_every_doubling(
    accounts: Accounts, register: Register
) -> None:
    accounts.add("test", "ann", PASSWORD, "one")
    for failures in range(40):
        with pytest.raises(NotSignedIn, match="name or the password is wrong"):
            accounts.sign_in("ann", "guess", "192.0.2.1", failures)
    with register.database.reading() as on:
        events = [each for each in on.events(most=100) if each.action == "sign-in refused"]
    assert [each.told for each in reversed(events)] == [
        *["from 192.0.2.1"] * 5,
        *[f"from 192.0.2.1, {number} times in a row" for number in (8, 16, 32)],
    ]


NEW = "a sluice lets it through"


def test_a_user_changes_the_password_and_stays_signed_in_here_alone(
    accounts: Accounts, register: Register
) -> None:
    accounts.add("test", "ann", PASSWORD, "one", publishes=True)
    here, elsewhere = (accounts.sign_in("ann", PASSWORD, "192.0.2.1") for _ in range(2))
    accounts.change_password(here, PASSWORD, NEW, "192.0.2.1")
    found = accounts.signed_in(here)
    assert found is not None
    assert (found.account.organisation, found.account.publishes) == ("one", True)
    assert accounts.signed_in(elsewhere) is None
    with pytest.raises(NotSignedIn):
        accounts.sign_in("ann", PASSWORD, "192.0.2.1")
    assert accounts.sign_in("ann", NEW, "192.0.2.1")
    assert actions(register)[:3] == ["signed in", "sign-in refused", "changed password"]


def test_a_password_is_changed_by_who_knows_the_current_one(accounts: Accounts, register: Register) -> None:
    accounts.add("test", "ann", PASSWORD, "one")
    key = accounts.sign_in("ann", PASSWORD, "192.0.2.1")
    with pytest.raises(NotSignedIn, match="sign in again"):
        accounts.change_password("guess", PASSWORD, NEW, "192.0.2.1")
    for before, after, reason in (
        ("guess", NEW, "the current password is wrong"),
        (PASSWORD, "short", "a password of 5 characters"),
        (PASSWORD, PASSWORD, "is the current one"),
    ):
        with pytest.raises(InputError, match=reason):
            accounts.change_password(key, before, after, "192.0.2.1")
    assert actions(register)[0] == "change of password refused"
    with pytest.raises(WrongPassword):
        accounts.change_password(key, "guess", NEW, "192.0.2.1")
    assert accounts.signed_in(key) is not None


def test_an_account_without_a_password_signs_in_by_a_proxy_alone(accounts: Accounts) -> None:
    accounts.add("test", "carol@example.net", None, None)
    with pytest.raises(NotSignedIn):
        accounts.sign_in("carol@example.net", "", "192.0.2.1")
    found = accounts.vouched_for("carol@example.net")
    assert found.account.administrator
    with pytest.raises(NotSignedIn, match="add-user dave adds one"):
        accounts.vouched_for("dave")


@pytest.mark.parametrize(
    ("name", "password", "organisation", "reason"),
    [
        ("ann", "short", "one", "a password of 5 characters"),
        ("ann", PASSWORD, "three", "no organisation 'three'; there are one, two"),
        ("../ann", PASSWORD, "one", "is not a valid account name"),
    ],
)
def test_an_account_that_cannot_be_is_refused(
    accounts: Accounts, name: str, password: str, organisation: str, reason: str
) -> None:
    with pytest.raises(InputError, match=reason):
        accounts.add("test", name, password, organisation)


def test_an_account_is_replaced_only_if_told_and_must_sign_in_again(accounts: Accounts) -> None:
    accounts.add("test", "ann", PASSWORD, "one")
    key = accounts.sign_in("ann", PASSWORD, "192.0.2.1")
    with pytest.raises(InputError, match="--replace"):
        accounts.add("test", "ann", PASSWORD, "two")
    accounts.add("test", "ann", PASSWORD, "two", replace=True)
    assert accounts.signed_in(key) is None
