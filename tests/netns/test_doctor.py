"""What the doctor finds on a machine where labs can be built."""

from __future__ import annotations

import threading

import pytest

from weirlab.lab import doctor
from weirlab.lab.linux import interface
from weirlab.lab.linux.namespace import Namespace, in_thread

pytestmark = pytest.mark.netns


def test_everything_essential_is_found_where_labs_work() -> None:
    findings = {finding.name: finding for finding in doctor.diagnose()}
    for name in ("privileges", "network namespaces", "veth interfaces", "kernel threads", "CPUs"):
        assert findings[name].ok, findings[name]
    assert doctor.missing_for_namespaces() is None


def test_af_xdp_is_tried_on_a_veth_interface() -> None:
    found = in_thread(doctor._try_af_xdp)
    finding = next(finding for finding in doctor.diagnose() if finding.name == "AF_XDP")
    if not finding.ok:
        pytest.skip(finding.detail)
    assert "in copy mode" in finding.detail, "the driver of veth pairs has no other"
    assert found == ("in the driver" in finding.detail, False)


def test_a_kernel_without_veth_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(interface, "create_probe_pair", refuse)
    findings = {finding.name: finding for finding in doctor.diagnose()}
    assert not findings["veth interfaces"].ok
    assert "Operation not supported" in findings["veth interfaces"].detail
    assert "modprobe veth" in findings["veth interfaces"].remedy
    assert "native XDP" not in findings, "what builds on it was not tried"
    assert doctor.missing_for_namespaces() == "veth interfaces: Operation not supported"


def test_trying_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    doctor.diagnose()
    assert threading.active_count() == before


def test_action_in_a_namespace_leaves_the_caller_where_it_is() -> None:
    import os

    def where() -> int:
        return os.stat("/proc/thread-self/ns/net").st_ino

    namespace = Namespace("weir-test-elsewhere")
    here = where()
    namespace.create()
    try:
        assert namespace.call(where) != here
        assert where() == here
        assert in_thread(where) == here
    finally:
        namespace.remove()
    assert not namespace.path.exists()


def test_errors_of_an_action_in_a_namespace_reach_the_caller() -> None:
    with pytest.raises(FileNotFoundError, match="weir-test-nowhere"):
        Namespace("weir-test-nowhere").call(lambda: None)
    with pytest.raises(ZeroDivisionError):
        in_thread(lambda: 1 / 0)
