"""Passwords, sessions, and what guessing meets."""

from __future__ import annotations

import pytest

from weirlab.errors import InputError
from weirlab.studies.voice.managing.accounts import (
    MOST_BY_ADDRESS,
    MOST_BY_NAME,
    WINDOW_S,
    Accounts,
    NotSignedIn,
    Throttle,
    Throttled,
    fits,
    hashed,
)
from weirlab.studies.voice.managing.register import Register

from .conftest import CHEAP, Clock

PASSWORD = "a weir holds water"


def actions(register: Register) -> list[str]:
    with register.database.reading() as on:
        return [each.action for each in on.events(most=20)]


def test_a_password_is_kept_as_a_hash_with_a_salt_of_its_own() -> None:
    one, other = hashed(PASSWORD, cost=CHEAP), hashed(PASSWORD, cost=CHEAP)
    assert one != other
    assert PASSWORD not in one
    assert fits(PASSWORD, one)
    assert fits(PASSWORD, other)
    assert not fits(PASSWORD + " ", one)
    assert not fits(PASSWORD, "")


def test_a_hash_costs_what_is_recommended() -> None:
    assert hashed("x" * 12).startswith("scrypt$65536$")


def test_who_signs_in_has_a_session_until_it_ends(accounts: Accounts, clock: Clock) -> None:
    accounts.add("test", "ann", PASSWORD, "one")
    key = accounts.sign_in("ann", PASSWORD, "192.0.2.1", 0.0)
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
    key, other = (accounts.sign_in("ann", PASSWORD, "192.0.2.1", 0.0) for _ in range(2))
    accounts.sign_out(key)
    assert accounts.signed_in(key) is None
    assert accounts.signed_in(other) is not None
    accounts.remove("test", "ann")
    assert accounts.signed_in(other) is None
    assert actions(register)[:3] == ["removed account", "signed out", "signed in"]


def test_neither_keys_nor_passwords_are_in_the_database(accounts: Accounts, register: Register) -> None:
    accounts.add("test", "ann", PASSWORD, "one")
    key = accounts.sign_in("ann", PASSWORD, "192.0.2.1", 0.0)
    from pathlib import Path

    kept = Path(register.database.shown).read_bytes()
    assert key.encode() not in kept
    assert PASSWORD.encode() not in kept


def test_guessing_one_account_must_wait(accounts: Accounts, register: Register) -> None:
    accounts.add("test", "ann", PASSWORD, "one")
    for attempt in range(MOST_BY_NAME):
        with pytest.raises(NotSignedIn, match="name or the password is wrong"):
            accounts.sign_in("ann", f"guess {attempt}", f"192.0.2.{attempt}", attempt)
    with pytest.raises(Throttled) as refused:
        accounts.sign_in("ann", PASSWORD, "192.0.2.99", 10.0)
    assert refused.value.wait_s == WINDOW_S - 10
    assert actions(register)[:2] == ["sign-in refused", "sign-in refused"]
    accounts.sign_in("ann", PASSWORD, "192.0.2.99", WINDOW_S + 1)


def test_guessing_from_one_address_must_wait(accounts: Accounts) -> None:
    accounts.add("test", "ann", PASSWORD, "one")
    for attempt in range(MOST_BY_ADDRESS):
        with pytest.raises(NotSignedIn):
            accounts.sign_in(f"user{attempt}", "guess", "192.0.2.1", 0.0)
    with pytest.raises(Throttled):
        accounts.sign_in("ann", PASSWORD, "192.0.2.1", 1.0)
    accounts.sign_in("ann", PASSWORD, "192.0.2.2", 1.0)


NEW = "a sluice lets it through"


def test_a_user_changes_the_password_and_stays_signed_in_here_alone(
    accounts: Accounts, register: Register
) -> None:
    accounts.add("test", "ann", PASSWORD, "one", publishes=True)
    here, elsewhere = (accounts.sign_in("ann", PASSWORD, "192.0.2.1", 0.0) for _ in range(2))
    accounts.change_password(here, PASSWORD, NEW, "192.0.2.1", 0.0)
    found = accounts.signed_in(here)
    assert found is not None
    assert (found.account.organisation, found.account.publishes) == ("one", True)
    assert accounts.signed_in(elsewhere) is None
    with pytest.raises(NotSignedIn):
        accounts.sign_in("ann", PASSWORD, "192.0.2.1", 0.0)
    assert accounts.sign_in("ann", NEW, "192.0.2.1", 0.0)
    assert actions(register)[:3] == ["signed in", "sign-in refused", "changed password"]


def test_a_password_is_changed_by_who_knows_the_current_one(accounts: Accounts, register: Register) -> None:
    accounts.add("test", "ann", PASSWORD, "one")
    key = accounts.sign_in("ann", PASSWORD, "192.0.2.1", 0.0)
    with pytest.raises(NotSignedIn, match="sign in again"):
        accounts.change_password("guess", PASSWORD, NEW, "192.0.2.1", 0.0)
    for before, after, reason in (
        ("guess", NEW, "the current password is wrong"),
        (PASSWORD, "short", "a password of 5 characters"),
        (PASSWORD, PASSWORD, "is the current one"),
    ):
        with pytest.raises(InputError, match=reason):
            accounts.change_password(key, before, after, "192.0.2.1", 0.0)
    assert actions(register)[0] == "change of password refused"
    for _ in range(MOST_BY_NAME):
        with pytest.raises(InputError, match="the current password is wrong"):
            accounts.change_password(key, "guess", NEW, "192.0.2.1", 1.0)
    with pytest.raises(Throttled):
        accounts.change_password(key, PASSWORD, NEW, "192.0.2.1", 2.0)
    assert accounts.signed_in(key) is not None


def test_a_throttle_forgets_what_is_long_ago_and_never_grows_without_end() -> None:
    throttle = Throttle(2)
    for number in range(20_000):
        throttle.failed(f"key {number}", 0.0)
    assert len(throttle._failures) == 10_000
    throttle.failed("key 19999", 100.0)
    assert throttle.wait_s("key 19999", 100.0) == WINDOW_S - 100
    assert throttle.wait_s("key 19999", WINDOW_S) == 0


def test_an_account_without_a_password_signs_in_by_a_proxy_alone(accounts: Accounts) -> None:
    accounts.add("test", "carol@example.net", None, None)
    with pytest.raises(NotSignedIn):
        accounts.sign_in("carol@example.net", "", "192.0.2.1", 0.0)
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
    key = accounts.sign_in("ann", PASSWORD, "192.0.2.1", 0.0)
    with pytest.raises(InputError, match="--replace"):
        accounts.add("test", "ann", PASSWORD, "two")
    accounts.add("test", "ann", PASSWORD, "two", replace=True)
    assert accounts.signed_in(key) is None
