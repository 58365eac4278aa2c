"""What the kernel refuses comes with the way out for this very user."""

from __future__ import annotations

import errno
import os

import pytest
from pyroute2.netlink.exceptions import NetlinkError

from weirlab.base.errors import MissingCapability
from weirlab.link import tap
from weirlab.link.host import duplicate


@pytest.mark.parametrize(("user", "advice"), [(1000, "run as root"), (0, "root lacks a privilege here")])
def test_only_those_who_are_not_root_are_told_to_be(
    user: int, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    refused = NetlinkError(errno.EPERM)
    assert f"no right to make a bridge; {advice}" in str(duplicate._explained(refused))
    with pytest.raises(MissingCapability, match=f"no right to change interfaces; {advice}"), tap.understood():
        raise refused
