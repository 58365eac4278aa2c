"""Scenarios as users write them."""

from typing import Final

SMALL_PROFILE: Final = """\
name: A small profile
lab: {kind: sim}
dut: {name: iptables}
profile:
  positions: [0, 100]
  sizes: [64]
  load_shares: [0.1, 0.4, 0.6, 0.9, 1.2, 1.5]
  repetitions: 1
  trial_s: 0.05
  warmup_s: 0.01
report: null
"""
"""A profile that is simulated in a second."""
