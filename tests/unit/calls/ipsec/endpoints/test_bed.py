"""What endpoints in namespaces say where they cannot be."""

from __future__ import annotations

import pytest

from weirlab import _engine
from weirlab.base.errors import MissingCapability
from weirlab.calls.ipsec.endpoints.bed import JoinedEndpoints
from weirlab.calls.ipsec.endpoints.plan import EndpointsSection, talk
from weirlab.lab.linux.namespace import Namespace


def test_where_af_xdp_is_refused_the_other_endpoints_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise MissingCapability("an endpoint cannot bypass the system on e0: denied")

    monkeypatch.setattr(_engine, "talk_between", refuse)
    bed = JoinedEndpoints(Namespace("weir-test-near"), Namespace("weir-test-far"), (0, 1), 1.0)
    with pytest.raises(
        MissingCapability, match=r"denied; .* --arms sockets,sockets-real-time; see weir doctor"
    ):
        bed.talk(talk(EndpointsSection(), "bypass", "idle", 1, 0.1))
