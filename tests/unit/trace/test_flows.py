from __future__ import annotations

import pytest

from weirlab.base.errors import InputError
from weirlab.trace.analysis import Flow, FlowEnd, parse_flow, select_flows

from . import made


@pytest.mark.parametrize(
    ("text", "flow"),
    [
        ("10.0.0.1:40000-192.0.2.1:443", Flow(FlowEnd("10.0.0.1", 40000), FlowEnd("192.0.2.1", 443))),
        ("10.0.0.1", Flow(FlowEnd("10.0.0.1"))),
        (":443", Flow(FlowEnd("", 443))),
        ("[2001:db8::1]:443-2001:DB8::2", Flow(FlowEnd("2001:db8::1", 443), FlowEnd("2001:db8::2"))),
        ("[2001:db8::1]", Flow(FlowEnd("2001:db8::1"))),
    ],
)
def test_flows_are_read(text: str, flow: Flow) -> None:
    assert parse_flow(text) == flow


@pytest.mark.parametrize(
    "text", ["", "-", "10.0.0.1-", "10.0.0.1:0", "10.0.0.1:70000", "host", "[::1", "[::1]4"]
)
def test_other_text_is_refused_with_examples(text: str) -> None:
    with pytest.raises(InputError, match=r"--flow .* not understood"):
        parse_flow(text)


def test_a_flow_fits_whoever_began_the_connection() -> None:
    found = made.connection()
    for text in ("10.0.0.1:40000-192.0.2.1:5201", "192.0.2.1:5201-10.0.0.1", ":5201", "10.0.0.1"):
        assert parse_flow(text).fits(found), text
    for text in ("10.0.0.1:5201", "10.0.0.1-10.0.0.1", "192.0.2.1:40000", ":443"):
        assert not parse_flow(text).fits(found), text


def test_connections_of_any_flow_are_selected_and_all_without_one() -> None:
    both = [made.connection(0), made.connection(1)]
    assert list(select_flows(both, [])) == both
    assert list(select_flows(both, [parse_flow(":40001"), parse_flow(":1")])) == both[1:]
