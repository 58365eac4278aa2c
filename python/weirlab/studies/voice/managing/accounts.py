"""Accounts: hashed passwords, sessions, and a limit on guessing."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import threading
from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Final

from weirlab.errors import InputError
from weirlab.quoting import quoted
from weirlab.studies.voice.managing.register import Gone, Register, instant
from weirlab.studies.voice.managing.transaction import Account

LEAST_PASSWORD: Final = 12
"""Least number of characters of a password."""
MOST_PASSWORD: Final = 1000
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_COST: Final = 1 << 16
"""scrypt's N with r = 8 and p = 1, which takes 64 MiB; the OWASP cheat sheet recommends this."""
_BLOCK: Final = 8
_SALT_BYTES: Final = 16
_KEY_BYTES: Final = 32

SESSION: Final = timedelta(hours=12)
"""How long a session lasts."""

WINDOW_S: Final = 300.0
MOST_BY_NAME: Final = 5
"""Most failures to sign in to one account within :data:`WINDOW_S`."""
MOST_BY_ADDRESS: Final = 20
"""Most failures from one address, for all accounts."""
_MOST_KEYS: Final = 10_000


class Throttled(InputError):
    """Too many failures to sign in."""

    def __init__(self, wait_s: float) -> None:
        self.wait_s = max(1, round(wait_s))
        super().__init__(f"too many attempts to sign in have failed; try again in {self.wait_s} s")


class NotSignedIn(InputError):
    """The name or the password is wrong, or the user has not signed in."""


def hashed(password: str, *, cost: int = _COST) -> str:
    """A password as it is stored: ``scrypt$N$salt$key`` (RFC 7914)."""
    salt = secrets.token_bytes(_SALT_BYTES)
    return "$".join(("scrypt", str(cost), _text(salt), _text(_key(password, salt, cost))))


def fits(password: str, kept: str) -> bool:
    """Does ``password`` match the stored hash? Takes equally long if it does not."""
    kind, _, rest = kept.partition("$")
    if kind != "scrypt":
        return False
    cost, salt, key = rest.split("$")
    found = _key(password, base64.b64decode(salt), int(cost))
    return hmac.compare_digest(found, base64.b64decode(key))


def _key(password: str, salt: bytes, cost: int) -> bytes:
    return hashlib.scrypt(
        password.encode("utf-8", "surrogatepass"), salt=salt, n=cost, r=_BLOCK, p=1, dklen=_KEY_BYTES,
        maxmem=129 * _BLOCK * cost + (1 << 20),
    )  # fmt: skip


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def is_name(text: str) -> bool:
    """Is this a valid account name?"""
    return _NAME.fullmatch(text) is not None


class Throttle:
    """Failures of the last minutes by key. ``now_s`` is an argument; not thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._failures: dict[str, deque[float]] = {}

    def wait_s(self, key: str, now_s: float) -> float:
        """How long ``key`` must wait; 0 if it need not."""
        failures = self._failures.get(key)
        if failures is None:
            return 0.0
        while failures and failures[0] <= now_s - WINDOW_S:
            failures.popleft()
        if not failures:
            del self._failures[key]
            return 0.0
        return 0.0 if len(failures) < self._most else failures[0] + WINDOW_S - now_s

    def failed(self, key: str, now_s: float) -> None:
        """Count a failure."""
        # The key that failed longest ago makes room.
        failures = self._failures.pop(key, None) or deque(maxlen=self._most)
        failures.append(now_s)
        self._failures[key] = failures
        if len(self._failures) > _MOST_KEYS:
            del self._failures[next(iter(self._failures))]

    def forget(self, key: str) -> None:
        """Forget the failures of ``key`` after a success."""
        self._failures.pop(key, None)


@dataclass(frozen=True)
class SignedIn:
    """A user who is signed in: the account, and the key of forms."""

    account: Account
    form_key: str
    """Requests that change something carry it, as pages of other sites cannot know it."""


class Accounts:
    """The accounts of a plan; ``cost`` is the cost of new hashes."""

    def __init__(self, register: Register, cost: int = _COST) -> None:
        self._register = register
        self._cost = cost
        self._secret = secrets.token_bytes(_KEY_BYTES)
        self._by_name = Throttle(MOST_BY_NAME)
        self._by_address = Throttle(MOST_BY_ADDRESS)
        # One password at a time: each takes 64 MiB, and a failure counts before the next attempt is checked.
        self._lock = threading.Lock()

    @cached_property
    def _nobody(self) -> str:
        """A hash that no password matches, so that a name without an account takes as long as any other."""
        return hashed(secrets.token_hex(), cost=self._cost)

    def add(
        self,
        who: str,
        name: str,
        password: str | None,
        organisation: str | None,
        *,
        publishes: bool = False,
        replace: bool = False,
    ) -> Account:
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
        kept = "" if password is None else hashed(checked(password), cost=self._cost)
        known = self._register.state().plan.organisations
        if organisation is not None and organisation not in known:
            there = f"; there are {', '.join(known)}" if known else ""
            raise InputError(f"the plan has no organisation {quoted(organisation)}{there}")
        account = Account(name, kept, organisation, publishes)
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
                raise Gone(f"there is no account {quoted(name)}")
            on.drop_account(name)
            on.record(instant(self._register.now()), who, "removed account", name)

    def sign_in(self, name: str, password: str, address: str, now_s: float) -> str:
        """Begin a session; returns its key, for a cookie.

        Without an ``address``, failures are counted by name alone: a proxy has one address for all users.

        Raises
        ------
        NotSignedIn
            Name or password is wrong.
        Throttled
            Too many attempts have failed.
        """
        proved = self._proved(name, password, address, now_s)
        if proved is None:
            self._register.record(name if is_name(name) else "somebody", "sign-in refused", _from(address))
            raise NotSignedIn("the name or the password is wrong")
        key = secrets.token_urlsafe(_KEY_BYTES)
        now = self._register.now()
        with self._register.database.writing() as on:
            if on.account(name) != proved:
                raise NotSignedIn("the account has changed meanwhile: sign in again")
            on.begin_session(_digest(key), name, instant(now + SESSION), instant(now))
            on.record(instant(now), name, "signed in", _from(address))
        return key

    def change_password(self, key: str, before: str, after: str, address: str, now_s: float) -> None:
        """Change the password of the user whose session has this key; the user's other sessions end.

        Raises
        ------
        InputError
            ``before`` is not the password, or ``after`` is not valid.
        NotSignedIn
            There is no such session.
        Throttled
            Too many attempts have failed, as with :meth:`sign_in`.
        """
        who = self.signed_in(key)
        if who is None:
            raise NotSignedIn("the session has ended: sign in again")
        name, register = who.account.name, self._register
        checked(after)
        proved = self._proved(name, before, address, now_s)
        if proved is None:
            register.record(name, "change of password refused", _from(address))
            raise InputError("the current password is wrong")
        if after == before:
            raise InputError("the new password is the current one: choose another")
        with self._lock:
            kept = hashed(after, cost=self._cost)
        with register.database.writing() as on:
            if on.account(name) != proved:
                # An administrator was faster.
                raise NotSignedIn("the account has changed meanwhile: sign in again")
            on.put_password(name, kept, _digest(key))
            on.record(instant(register.now()), name, "changed password", _from(address))

    def _proved(self, name: str, password: str, address: str, now_s: float) -> Account | None:
        """The account with this name and password; None, counted as a failure, if there is none."""
        shown = name if is_name(name) else "somebody"
        with self._lock:
            wait_s = self._by_name.wait_s(shown, now_s)
            if address:
                wait_s = max(wait_s, self._by_address.wait_s(address, now_s))
            if wait_s > 0:
                raise Throttled(wait_s)
            with self._register.database.reading() as on:
                account = on.account(name) if is_name(name) else None
            kept = account.password if account is not None and account.password else self._nobody
            right = len(password) <= MOST_PASSWORD and fits(password, kept)
            if account is None or not account.password or not right:
                self._by_name.failed(shown, now_s)
                if address:
                    self._by_address.failed(address, now_s)
                return None
            self._by_name.forget(shown)
            return account

    def sign_out(self, key: str) -> None:
        """End a session."""
        with self._register.database.writing() as on:
            account = on.session(_digest(key), instant(self._register.now()))
            on.end_session(_digest(key))
            if account is not None:
                on.record(instant(self._register.now()), account.name, "signed out", "")

    def signed_in(self, key: str) -> SignedIn | None:
        """The user whose session has this key; None if there is no such session."""
        if not key:
            return None
        with self._register.database.reading() as on:
            account = on.session(_digest(key), instant(self._register.now()))
        return None if account is None else SignedIn(account, _form_key(key.encode(), account.name))

    def vouched_for(self, name: str) -> SignedIn:
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
        return SignedIn(account, _form_key(self._secret, name))


def checked(password: str) -> str:
    """``password``; raises ``InputError`` if it could be guessed."""
    if not LEAST_PASSWORD <= len(password) <= MOST_PASSWORD:
        raise InputError(
            f"a password of {len(password)} characters: give {LEAST_PASSWORD} or more, such as several words"
        )
    return password


def _form_key(secret: bytes, name: str) -> str:
    return hmac.new(secret, f"forms of {name}".encode(), "sha256").hexdigest()


def _digest(key: str) -> str:
    """The digest of a session's key, so that a reader of the database cannot use the session."""
    return hashlib.sha256(key.encode()).hexdigest()


def _from(address: str) -> str:
    return f"from {address}" if address else "by a proxy"
