"""The scenarios of the stored runs."""

from __future__ import annotations

from typing import Any, Final

FIREWALL = """\
name: small firewall
lab: {{kind: sim, device: {{service_per_rule_ns: {rule_ns}}}}}
profile:
  positions: [0, 50, 100, 200, 400, 1000]
  sizes: [64, 512]
  load_shares: [0.05, 0.2, 0.5, 0.8, 0.93, 1.15, 1.5]
  arrivals: [constant, poisson]
  extra_shares: [0.44, 0.85]
  repetitions: 2
  trial_s: 0.01
  warmup_s: 0.002
  scout_s: 0.01
{verify}report: null
"""
HELD_OUT = (
    "verify:\n  - {positions: [150], sizes: [64], draws: 3, repetitions: 2, trial_s: 0.01, warmup_s: 0.002}\n"
)

CAPACITY_SCENARIO = """\
name: small capacity
lab: {kind: sim, device: {service_fixed_ns: 200000.0, service_per_rule_ns: 1000.0, service_per_byte_ns: 0.0}}
calls: {rtcp: false}
capacity:
  positions: [0, 100]
  sweep: {first: 30, last: 60, step: 15, repetitions: 1, trial_s: 0.1, warmup_s: 0.02}
  search: {trial_s: 0.1, warmup_s: 0.02, trials: 1, min_calls: 4, width: 0.1}
  predict:
    profile:
      positions: [0, 50, 100, 150]
      sizes: [218]
      load_shares: [0.1, 0.4, 0.7, 0.9, 1.2, 1.5]
      repetitions: 1
      trial_s: 0.1
report: null
"""

FAILOVER_SCENARIO: dict[str, Any] = {
    "name": "small failover",
    "calls": {"count": 12, "codec": "g711"},
    "failover": {
        "pairs": [
            {"protocol": "keepalived", "advert_s": 0.1},
            {"protocol": "keepalived", "advert_s": 0.1, "states": "off"},
        ],
        "repetitions": 2,
        "event_s": 0.5,
        "after_s": 4.5,
        "affected_s": 2.5,
        "load_s": 0.2,
    },
    "report": None,
}

MONITOR_SCENARIO: dict[str, Any] = {
    "name": "small monitor",
    "monitor": {
        "payloads": [10, 1400],
        "loads": ["max", "400kpps"],
        "runs": 2,
        "trial_s": 0.1,
        "stall": {"before_s": 0.2, "pause_s": 0.5, "after_s": 0.3, "repetitions": 1},
        "search": {"frames": [60], "trial_s": 0.1},
        "copy_cost": {"repetitions": 2, "trial_s": 0.1},
    },
    "report": None,
}

VOICE_SCENARIO: dict[str, Any] = {"name": "small plan", "voice": {"plan": "campus"}, "report": None}

VOICE_LOAD_SCENARIO: dict[str, Any] = {
    "name": "small load",
    "voice_load": {"plan": "campus", "trial_s": 1.0, "trials": 1, "width": 0.3, "media_calls": 1},
    "report": None,
}

ENDPOINTS_SCENARIO: dict[str, Any] = {
    "name": "small endpoints",
    "endpoints": {
        "calls": [1, 5],
        "lasts_s": 0.5,
        "warmup_s": 0.1,
        "repetitions": 2,
        "limit": {"most_calls": 2000, "trial_s": 0.2},
    },
    "report": None,
}

ESP_SCENARIO: dict[str, Any] = {
    "name": "small costs",
    "esp": {"suites": ["aes-cbc", "aes-gcm-16"], "packet_times_ms": [10, 20, 60], "rounds": 10},
    "report": None,
}

PARALLEL_SCENARIO: dict[str, Any] = {
    "name": "small parallel",
    "parallel": {
        "split": {"shares": [0.1]},
        "methods": ["tcp", "independent", "mptcp", "earliest"],
        "repetitions": 2,
        "cases": [],
    },
    "report": None,
}

MATRIX_SCENARIO: Final = """
name: a device and a slower one
report: null
campaign:
  scenarios: {series: series.yaml}
  devices:
    new: {lab: {device: {service_fixed_ns: 1150}}}
    old: {lab: {device: {service_fixed_ns: 6000}}}
  repetitions: 3
"""

SERIES_SCENARIO: Final = """
name: TCP beside UDP
lab: {kind: sim}
report: null
series:
  trial_s: 0.02
  settings:
    - {name: udp, rate: 200kpps, sizes: 160}
    - {name: tcp, rate: 200kpps, sizes: 160, l4: tcp}
"""
