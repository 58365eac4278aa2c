"""Accounts: hashed passwords, and sessions."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Final

from pwdlib import PasswordHash
from pwdlib.exceptions import UnknownHashError
from pwdlib.hashers.argon2 import Argon2Hasher

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.numbering.managing.register import MissingPiece, Register, instant
from weirlab.numbering.managing.transaction import UserAccount

LEAST_PASSWORD: Final = 12
"""Least number of characters of a password."""
MOST_PASSWORD: Final = 1000
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_KEY_BYTES: Final = 32

PASSWORDS: Final = PasswordHash((Argon2Hasher(time_cost=2, memory_cost=19 * 1024, parallelism=1),))
"""Argon2id as the OWASP Password Storage Cheat Sheet recommends it: 19 MiB and 2 passes a hash."""

SESSION: Final = timedelta(hours=12)
"""How long a session lasts."""

LOGGED_FAILURES: Final = 5
"""So many failures of a client in a row are recorded one by one; of later ones, every doubling."""


class NotSignedIn(InputError):
    """The name or the password is wrong, or the user has not signed in."""


class WrongPassword(InputError):
    """A user who is signed in has not given the current password."""


def is_name(text: str) -> bool:
    """Is this a valid account name?"""
    return _NAME.fullmatch(text) is not None


@dataclass(frozen=True)
class UserSession:
    """A user who is signed in: the account, and the key of forms."""

    account: UserAccount
    form_key: str
    """Requests that change something carry it, as pages of other sites cannot know it."""


class Accounts:
    """The accounts of a plan, and how their passwords are hashed."""

    def __init__(self, register: Register, passwords: PasswordHash = PASSWORDS) -> None:
        self._register = register
        self._passwords = passwords
        self._secret = secrets.token_bytes(_KEY_BYTES)

    @cached_property
    def _nobody(self) -> str:
        """A hash that no password matches, so that a name without an account takes as long as any other."""
        return self._passwords.hash(secrets.token_hex())

    def add(
        self,
        who: str,
        name: str,
        password: str | None,
        organisation: str | None,
        *,
        publishes: bool = False,
        replace: bool = False,
    ) -> UserAccount:
        """Add an account, or with ``replace`` change it.

        Parameters
        ----------
        password
            None for an account that only a proxy can sign in.
        organisation
            None for an administrator.

        Raises
        ------
        InputError
            The name, the password or the organisation is not valid.
        """
        if not is_name(name):
            raise InputError(
                f"{quoted(name)} is not a valid account name: use letters, digits and . _ @ -, 64 at most"
            )
        kept = "" if password is None else self._passwords.hash(_bytes(checked(password)))
        known = self._register.state().plan.organisations
        if organisation is not None and organisation not in known:
            there = f"; there are {', '.join(known)}" if known else ""
            raise InputError(f"the plan has no organisation {quoted(organisation)}{there}")
        account = UserAccount(name, kept, organisation, publishes)
        with self._register.database.writing() as on:
            there_already = on.account(name) is not None
            if there_already and not replace:
                raise InputError(f"there is already an account {name}; --replace changes it")
            on.put_account(account)
            what = f"{name}, {f'for {organisation}' if organisation else 'administrator'}"
            action = "changed account" if there_already else "added account"
            on.record(instant(self._register.now()), who, action, what)
        return account

    def remove(self, who: str, name: str) -> None:
        """Remove an account and end its sessions; what it changed stays under its name."""
        with self._register.database.writing() as on:
            if on.account(name) is None:
                raise MissingPiece(f"there is no account {quoted(name)}")
            on.drop_account(name)
            on.record(instant(self._register.now()), who, "removed account", name)

    def sign_in(self, name: str, password: str, address: str, failures: int = 0) -> str:
        """Begin a session; returns its key, for a cookie.

        It takes 19 MiB and some 30 ms of CPU time, whether there is such an account or not: limit how many
        attempts run at once, and how often they may fail. How many ``failures`` the same client had before
        decides whether one more is worth recording.

        Raises
        ------
        NotSignedIn
            Name or password is wrong.
        """
        proved = self._proved(name, password)
        if proved is None:
            self._record_failure(name if is_name(name) else "somebody", "sign-in refused", address, failures)
            raise NotSignedIn("the name or the password is wrong")
        key = secrets.token_urlsafe(_KEY_BYTES)
        now = self._register.now()
        with self._register.database.writing() as on:
            if on.account(name) != proved:
                raise NotSignedIn("the account has changed meanwhile: sign in again")
            on.begin_session(_digest(key), name, instant(now + SESSION), instant(now))
            on.record(instant(now), name, "signed in", f"from {address}")
        return key

    def change_password(self, key: str, before: str, after: str, address: str, failures: int = 0) -> None:
        """Change the password of the user whose session has this key; the user's other sessions end.

        Costs and ``failures`` are as for :meth:`sign_in`.

        Raises
        ------
        InputError
            ``after`` is not valid.
        WrongPassword
            ``before`` is not the password.
        NotSignedIn
            There is no such session.
        """
        who = self.signed_in(key)
        if who is None:
            raise NotSignedIn("the session has ended: sign in again")
        name, register = who.account.name, self._register
        checked(after)
        proved = self._proved(name, before)
        if proved is None:
            self._record_failure(name, "change of password refused", address, failures)
            raise WrongPassword("the current password is wrong")
        if after == before:
            raise InputError("the new password is the current one: choose another")
        kept = self._passwords.hash(_bytes(after))
        with register.database.writing() as on:
            if on.account(name) != proved:
                # An administrator was faster.
                raise NotSignedIn("the account has changed meanwhile: sign in again")
            on.put_password(name, kept, _digest(key))
            on.record(instant(register.now()), name, "changed password", f"from {address}")

    def _proved(self, name: str, password: str) -> UserAccount | None:
        """The account with this name and password; None if there is none."""
        with self._register.database.reading() as on:
            account = on.account(name) if is_name(name) else None
        kept = account.password if account is not None and account.password else self._nobody
        try:
            right = len(password) <= MOST_PASSWORD and self._passwords.verify(_bytes(password), kept)
        except UnknownHashError:
            right = False
        return account if account is not None and account.password and right else None

    def _record_failure(self, name: str, action: str, address: str, before: int) -> None:
        """Record a failure; of many, one after the other, only some: a program could fill the log."""
        number = before + 1
        if number <= LOGGED_FAILURES:
            self._register.record(name, action, f"from {address}")
        elif number & (number - 1) == 0:
            self._register.record(name, action, f"from {address}, {number} times in a row")

    def sign_out(self, key: str) -> None:
        """End a session."""
        with self._register.database.writing() as on:
            account = on.session(_digest(key), instant(self._register.now()))
            on.end_session(_digest(key))
            if account is not None:
                on.record(instant(self._register.now()), account.name, "signed out", "")

    def signed_in(self, key: str) -> UserSession | None:
        """The user whose session has this key; None if there is no such session."""
        if not key:
            return None
        with self._register.database.reading() as on:
            account = on.session(_digest(key), instant(self._register.now()))
        return None if account is None else UserSession(account, _form_key(key.encode(), account.name))

    def vouched_for(self, name: str) -> UserSession:
        """The user whom a proxy has authenticated.

        Raises
        ------
        NotSignedIn
            There is no such account.
        """
        with self._register.database.reading() as on:
            account = on.account(name) if is_name(name) else None
        if account is None:
            wanted = name if is_name(name) else "NAME"
            raise NotSignedIn(
                f"{quoted(name)} has no account here; weir voice manage add-user {wanted} adds one"
            )
        return UserSession(account, _form_key(self._secret, name))


def checked(password: str) -> str:
    """``password``; raises ``InputError`` if it could be guessed."""
    if not LEAST_PASSWORD <= len(password) <= MOST_PASSWORD:
        raise InputError(
            f"a password of {len(password)} characters: give {LEAST_PASSWORD} or more, such as several words"
        )
    return password


def _bytes(password: str) -> bytes:
    return password.encode("utf-8", "surrogatepass")


def _form_key(secret: bytes, name: str) -> str:
    return hmac.new(secret, f"forms of {name}".encode(), "sha256").hexdigest()


def _digest(key: str) -> str:
    """The digest of a session's key, so that a reader of the database cannot use the session."""
    return hashlib.sha256(key.encode()).hexdigest()
