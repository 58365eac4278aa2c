from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from weirlab.devices.planning import study
from weirlab.lab.dut.rulesets.source import RulesetSource
from weirlab.lab.equivalence.proof import EquivalenceProof
from weirlab.rules import Advice, advise

from ...conftest import Weir
from .conftest import OLD

RULES = """\
*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
{fillers}[5:1] -A FORWARD -p udp -m udp --dport 53 -j ACCEPT
[9000:1] -A FORWARD -p tcp -m tcp --dport 443 -j ACCEPT
COMMIT
"""


@pytest.fixture(autouse=True)
def proof(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Proofs succeed without packets, or fail for a reason."""

    def prove(failure: str) -> None:
        def proven(source: RulesetSource, where: str) -> tuple[Advice, EquivalenceProof]:
            return advise(source.path_of_packets(elements=False), where), EquivalenceProof(
                1234, failure=failure
            )

        monkeypatch.setattr(study, "proven_advice", proven)

    prove("")
    return prove


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A ruleset whose busiest rule is the last of 300."""
    path = tmp_path / "saved.rules"
    fillers = "".join(f"[0:0] -A FORWARD -s 10.0.{i % 250}.0/24 -p udp -j ACCEPT\n" for i in range(298))
    path.write_text(RULES.format(fillers=fillers))
    return path


def test_a_ruleset_gives_the_position_and_better_order(
    weir: Weir, devices: Path, saved: Path, tmp_path: Path
) -> None:
    target = tmp_path / "new.rules"
    document = weir("plan", devices, "--ruleset", saved, "--reordered", target, "--json").json
    assert document["given"]["position"] == pytest.approx(300, rel=0.01)
    ruleset = document["ruleset"]
    assert ruleset["new_mean_position"] == pytest.approx(1, abs=0.2)
    assert ruleset["moves"][0]["place"] == 300
    assert ruleset["gains"][0]["threshold_after_pps"] > ruleset["gains"][0]["threshold_before_pps"]
    assert sorted(target.read_text().splitlines()) == sorted(saved.read_text().splitlines())
    alone = weir("plan", "--ruleset", saved)
    assert alone.code == 0
    assert "same verdict for every packet: 1,234 test packets" in " ".join(alone.out.split())


def test_of_many_moves_the_fewest_that_give_most_are_advised_and_written_as_a_diff(
    weir: Weir, tmp_path: Path
) -> None:
    counts = [1, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14, 17, 16, 19, 18, 21, 20, 23, 22, 9000]
    path, target = tmp_path / "many.rules", tmp_path / "many.diff"
    rules = "".join(f"[{n}:0] -A FORWARD -s 10.0.{i}.0/24 -p udp -j ACCEPT\n" for i, n in enumerate(counts))
    path.write_text(f"*filter\n:FORWARD DROP [9:0]\n{rules}COMMIT\n")
    ruleset = weir("plan", "--ruleset", path, "--reordered", target, "--json").json["ruleset"]
    (move,) = ruleset["moves"]
    assert (move["place"], move["new_place"]) == (24, 1)
    assert move["saved"] == pytest.approx(ruleset["mean_position"] - ruleset["new_mean_position"])
    assert ruleset["best_order"]["moves"] > 10
    assert ruleset["best_order"]["mean_position"] < ruleset["new_mean_position"]
    changed = [line for line in target.read_text().splitlines() if line[:1] in "+-"]
    assert changed == [
        f"--- {path}",
        f"+++ {path} in the new order",
        "+[9000:0] -A FORWARD -s 10.0.23.0/24 -p udp -j ACCEPT",
        "-[9000:0] -A FORWARD -s 10.0.23.0/24 -p udp -j ACCEPT",
    ]


def test_rules_are_ranked_and_a_set_and_established_first_are_advised(weir: Weir, tmp_path: Path) -> None:
    path = tmp_path / "drops.rules"
    drops = "".join(f"[1:0] -A FORWARD -s 10.0.0.{host}/32 -j DROP\n" for host in range(4))
    known = "[96:0] -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n"
    path.write_text(f"*filter\n:FORWARD DROP [0:0]\n{drops}{known}COMMIT\n")
    ruleset = weir("plan", "--ruleset", path, "--json").json["ruleset"]
    assert [one["place"] for one in ruleset["comparisons"]] == [5, 1, 2, 3, 4]
    (grouped,) = ruleset["sets"]
    assert (grouped["first"], grouped["last"], grouped["values"]) == (1, 4, ["10.0.0.0/30"])
    (first,) = ruleset["established_first"]
    assert (first["place"], first["blocked_by"]) == (5, [1, 2, 3, 4])
    shown = " ".join(weir("plan", "--ruleset", path).out.split())
    set_, known_ = (
        "one set instead of the rules FORWARD 1-4 (2.94)",
        "rule FORWARD 5 for established connections",
    )
    assert f"saved by {set_} or by {known_} in the first place (3.80), which changes verdicts unless" in shown
    assert "One set instead of rules" in shown
    assert "ESTABLISHED belongs first" in shown


def test_the_better_order_of_commands_is_written_as_the_dump_of_their_rules(
    weir: Weir, saved: Path, tmp_path: Path
) -> None:
    saved.write_text(
        "iptables -P FORWARD DROP\niptables -A FORWARD -c 9 9 -p udp --dport 53 -j ACCEPT\n"
        "iptables -I FORWARD -c 1 9 -p tcp -j DROP\n"
    )
    target = tmp_path / "new.rules"
    ruleset = weir("plan", "--ruleset", saved, "--reordered", target, "--json").json["ruleset"]
    assert (ruleset["mean_position"], ruleset["new_mean_position"]) == pytest.approx((1.9, 1.1))
    assert [line for line in target.read_text().splitlines() if "FORWARD" in line] == [
        ":FORWARD DROP [0:0]",
        "[9:9] -A FORWARD -p udp --dport 53 -j ACCEPT",
        "[1:9] -A FORWARD -p tcp -j DROP",
    ]


def test_a_gain_below_the_error_of_the_model_is_none(weir: Weir, devices: Path, tmp_path: Path) -> None:
    path = tmp_path / "near.rules"
    fillers = "".join(
        f"[{10 - (i == 0)}:0] -A FORWARD -s 10.0.{i}.0/24 -p udp -j ACCEPT\n" for i in range(20)
    )
    path.write_text(RULES.format(fillers=fillers).replace("[9000:", "[0:"))
    answer = weir("plan", devices, "--device", "old", "--ruleset", path, "--json")
    (gain,) = answer.json["ruleset"]["gains"]
    assert 0 < gain["threshold_after_pps"] / gain["threshold_before_pps"] - 1 < gain["error_ratio"]
    assert "as good as can be told" in answer.json["conclusion"]


def test_an_order_that_is_not_proven_is_neither_given_nor_written(
    weir: Weir, devices: Path, saved: Path, tmp_path: Path, proof: Callable[[str], None]
) -> None:
    proof("Operation not permitted; run as root")
    document = weir("plan", devices, "--ruleset", saved, "--json").json["ruleset"]
    assert (document["moves"], document["orders"]) == ([], {})
    assert document["proof"]["failure"] == "Operation not permitted; run as root"
    assert document["new_mean_position"] == document["mean_position"] == pytest.approx(300, rel=0.01)
    assert document["unproven_mean_position"] == pytest.approx(1, abs=0.2)
    gain = document["gains"][0]
    assert gain["threshold_after_pps"] == gain["threshold_before_pps"]
    words = " ".join(weir("plan", "--ruleset", saved).out.split())
    assert "not proven here that it means the same: Operation not permitted; run as root." in words
    assert "Rules to move" not in words
    refused = weir("plan", "--ruleset", saved, "--reordered", tmp_path / "new.rules")
    assert refused.code == 4
    assert "no order that is not proven: Operation not permitted" in " ".join(refused.err.split())
    assert not (tmp_path / "new.rules").exists()


def test_a_rule_that_keeps_its_place_tells_what_it_would_gain_if_it_could_move(
    weir: Weir, devices: Path, saved: Path
) -> None:
    saved.write_text(saved.read_text().replace("--dport 443 -j", "--dport 443 -m limit --limit 9/sec -j"))
    ruleset = weir("plan", devices, "--ruleset", saved, "--json").json["ruleset"]
    ((text, position),) = ruleset["freed"].items()
    assert text.startswith("FORWARD rule 300: match limit depends on earlier packets")
    assert position == pytest.approx(1, abs=0.01)
    assert ruleset["new_mean_position"] == pytest.approx(300, rel=0.01)
    old = next(gain for gain in ruleset["gains"] if gain["device"] == "old")
    assert old["freed"][0]["saved_ns"] == pytest.approx(299 * OLD.per_rule_ns, rel=0.02)
    told = weir("plan", devices, "--ruleset", saved, "--details").out
    assert "if it could move: 1" in " ".join(told.split())


def test_a_change_of_rules_costs_time_per_packet_where_a_profile_is_at_hand(
    weir: Weir, devices: Path, saved: Path, tmp_path: Path
) -> None:
    before = tmp_path / "before.rules"
    before.write_text(RULES.format(fillers=""))
    asked = ("plan", devices, "--ruleset", saved, "--before", before, "--margin", "20000%")
    change = weir(*asked, "--json").json["change"]
    assert [cost["device"] for cost in change["costs"]] == ["old", "new"]
    old = change["costs"][0]
    times = [1e9 / old[name] for name in ("before_pps", "after_pps")]
    rules = change["mean_position"] - change["mean_position_before"]
    assert times[1] - times[0] == pytest.approx(OLD.per_rule_ns * rules, rel=0.05)
    assert "Predicted cost of the change" in weir(*asked).out


def test_more_rules_per_packet_than_before_end_with_9_without_a_model(
    weir: Weir, saved: Path, tmp_path: Path
) -> None:
    before = tmp_path / "before.rules"
    before.write_text(RULES.format(fillers=""))
    answer = weir("plan", "--ruleset", saved, "--before", before)
    assert answer.code == 9
    assert "2.00 → 300 rules per packet (+14,904 %)" in answer.out
    assert "298 rules added" in answer.out
    document = weir("plan", "--ruleset", saved, "--before", before, "--json").json["change"]
    assert (document["verdict"], document["added"], document["own_mean_position"]) == ("worse", 298, None)
    assert weir("plan", "--ruleset", before, "--before", saved).code == 0
    assert weir("plan", "--ruleset", saved, "--before", before, "--margin", "20000%").code == 0


def test_new_rules_without_a_counter_are_counted_once_however_many_they_are(
    weir: Weir, saved: Path, tmp_path: Path
) -> None:
    def lines(new: int) -> list[str]:
        after = tmp_path / f"{new}.rules"
        added = "".join(f"-A FORWARD -s 10.9.{i // 250}.{i % 250} -j DROP\n" for i in range(new))
        head, mark, tail = saved.read_text().partition("[9000:1]")
        after.write_text(head + added + mark + tail)
        answer = weir("plan", "--ruleset", after, "--before", saved, "--require", "rules<=60")
        assert answer.code == 9
        text = f"{answer.out}{answer.err}"
        assert text.count("count as stopping none of them") == 1
        return text.splitlines()

    assert len(lines(2000)) == len(lines(20))


def test_counters_of_new_rules_never_make_a_worse_change_pass(weir: Weir, tmp_path: Path) -> None:
    """A hundred rules that claim to have stopped most packets, before one that most packets match."""
    before, after = tmp_path / "before.rules", tmp_path / "after.rules"
    old = "".join(f"[10:600] -A FORWARD -s 10.1.0.{i}/32 -j DROP\n" for i in range(180))
    old += "[900000:54000000] -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n"
    new = "".join(f"[100000:1000000] -A FORWARD -s 10.2.0.{i}/32 -j DROP\n" for i in range(100))
    dump = "*filter\n:FORWARD DROP [0:0]\n{}COMMIT\n"
    before.write_text(dump.format(old))
    after.write_text(dump.format(new + old))
    answer = weir("plan", "--ruleset", after, "--before", before)
    assert answer.code == 7
    assert "new rules counted other packets" in " ".join(answer.out.split())
    change = weir("plan", "--ruleset", after, "--before", before, "--json").json["change"]
    assert change["mean_position"] == pytest.approx(change["mean_position_before"] + 100)
    assert (change["verdict"], change["own_mean_position"] < change["mean_position_before"]) == (
        "cannot tell",
        True,
    )
    after.write_text(dump.format(re.sub(r"(?m)^\[100000:\d+\] ", "", new) + old))
    assert weir("plan", "--ruleset", after, "--before", before).code == 9


def test_packets_whose_rule_is_gone_leave_it_open(weir: Weir, tmp_path: Path) -> None:
    before, after = tmp_path / "before.rules", tmp_path / "after.rules"
    dump = "*filter\n:FORWARD DROP [0:0]\n{}[5:1] -A FORWARD -p udp -m udp --dport 53 -j ACCEPT\nCOMMIT\n"
    before.write_text(dump.format("[9000:1] -A FORWARD -p tcp -m tcp --dport 443 -j ACCEPT\n"))
    after.write_text(dump.format("-A FORWARD -p tcp -m multiport --dports 443,8443 -j ACCEPT\n"))
    answer = weir("plan", "--ruleset", after, "--before", before)
    assert answer.code == 7
    assert "packets whose rule is gone count as compared with all" in " ".join(answer.out.split())
    assert "1.00 → 0.00111 to 2.00 rules per packet (at most +99.89 %)" in answer.out


def test_required_rules_per_packet_are_those_that_are_known(weir: Weir, tmp_path: Path) -> None:
    """Reported: the upper bound was judged, although the counters of the new rules told the number."""
    before, after = tmp_path / "before.rules", tmp_path / "after.rules"
    dump = "*filter\n:FORWARD DROP [0:0]\n{}COMMIT\n"
    dns = "[10:1] -A FORWARD -p udp -m udp --dport 53 -j ACCEPT\n"
    https = "[90:1] -A FORWARD -p tcp -m tcp --dport 443 -j ACCEPT\n"
    before.write_text(dump.format(dns + https))

    def required(rules: str) -> tuple[str, float]:
        after.write_text(dump.format(rules))
        asked = ("plan", "--ruleset", after, "--before", before, "--require", "rules<=2")
        (found,) = weir(*asked, "--json").json["requirements"]
        return found["verdict"], found["value"]

    more = "".join(f"-A FORWARD -p udp -m udp --dport {port} -j ACCEPT\n" for port in (54, 55, 56))
    merged = "[900:1] -A FORWARD -p tcp -m multiport --dports 443,8443 -j ACCEPT\n"
    assert required(merged + more + dns) == ("met", pytest.approx((900 + 5 * 10) / 910))
    assert required(dns + more) == ("undecided", pytest.approx((10 + 4 * 90) / 100))
    assert required(more + dns + https) == ("not met", pytest.approx((4 * 10 + 5 * 90) / 100))


def test_the_same_rules_end_with_0_whatever_they_counted(weir: Weir, saved: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.rules"
    other.write_text(saved.read_text().replace("[9000:1]", "[1:1]").replace("[5:1]", "[900:1]"))
    answer = weir("plan", "--ruleset", other, "--before", saved, "--margin", "0%", "--json")
    assert (answer.code, answer.json["change"]["verdict"]) == (0, "unchanged")


def test_rules_per_packet_are_required_without_a_model(weir: Weir, saved: Path) -> None:
    found = weir("plan", "--ruleset", saved, "--require", "rules<=60", "--json")
    assert found.code == 9
    (rules,) = found.json["requirements"]
    assert (rules["verdict"], rules["value"]) == ("not met", pytest.approx(300, rel=0.01))
    assert weir("plan", "--ruleset", saved, "--require", "rules<=301").code == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--require", "p99<1ms", "--require", "rules<=60"), "requirement 'p99<1ms' needs a model"),
        (("--class", "cyclic", "--cycle", "4ms"), "cyclic traffic, cycle 4 ms needs a model"),
        (("--margin", "5%"), "--margin belongs to --before"),
        (("--before", "saved.rules", "--margin", "often"), "--margin 5%"),
        (("--before", "saved.rules", "--reordered", "new.rules"), "leave --reordered out"),
    ],
)
def test_what_rules_alone_cannot_answer_is_refused(
    weir: Weir, saved: Path, arguments: tuple[str, ...], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(saved.parent)
    answer = weir("plan", "--ruleset", saved, *arguments)
    assert answer.code == 2
    assert complaint in " ".join(answer.err.split())


def test_rules_whose_packets_are_left_out_are_named_with_the_file_of_their_places(
    weir: Weir, tmp_path: Path
) -> None:
    before, after = tmp_path / "before.rules", tmp_path / "after.rules"
    before.write_text(RULES.format(fillers="-A FORWARD -p icmp -j ACCEPT\n"))
    after.write_text(RULES.format(fillers="-A FORWARD -p gre -j DROP\n-A FORWARD -p icmp -j ACCEPT\n"))
    answer = " ".join(weir("plan", "--ruleset", after, "--before", before).out.split())
    assert f"1 rule without a counter in {before} are left out (FORWARD 2 of {after})" in answer


def test_rules_without_a_counter_that_are_in_the_way_are_told_with_what_a_counter_would_gain(
    weir: Weir, tmp_path: Path
) -> None:
    path = tmp_path / "saved.rules"
    path.write_text(RULES.format(fillers="-A FORWARD -p icmp -j ACCEPT\n-A FORWARD -p gre -j ACCEPT\n"))
    ruleset = weir("plan", "--ruleset", path, "--json").json["ruleset"]
    assert [text.partition(":")[0] for text in ruleset["freed"]] == ["FORWARD rule 1", "FORWARD rule 2"]
    assert list(ruleset["freed"].values()) == pytest.approx([1, 1], abs=0.01)
    shown = " ".join(weir("plan", "--ruleset", path, "--details").out.split())
    assert shown.count("at best 1.00 rules") == 1
    assert "(with counters on them: 1.00 at best)" in shown
