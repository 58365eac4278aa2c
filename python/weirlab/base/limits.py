"""Upper limits on requests, stated once for options, scenario files and the plans made from them.

Nothing useful can be measured beyond them. They exist so that a typing error is refused at once, with its
place, and does not exhaust memory or patience.
"""

from __future__ import annotations

from typing import Final

MOST_RULES: Final = 1_000_000
"""Matching positions: rules up to and including the one that accepts."""

MOST_FLOWS: Final = 1_000_000

MOST_CALLS: Final = 1_000_000

MOST_CPUS: Final = 128
"""Of a device: as many as a network card's table for spreading flows has entries."""

MOST_SENDERS: Final = 64
"""CPUs that send."""

LONGEST_LOSS_RUN: Final = 10_000
"""Packets lost in a row, on average: more than three minutes of a call."""

LONGEST_S: Final = 3600.0
"""Of anything within a trial, in s; in ns, the limit for any time of a simulated device."""

LONGEST_ADVERT_S: Final = 255
"""Between two advertisements of VRRP version 2 (RFC 3768, section 5.3.7) or of CARP: 8 bits."""

MOST_REPETITIONS: Final = 10_000

MOST_ATTEMPTS: Final = 1000

MOST_TRIALS: Final = 100_000
"""In a plan: more than half a day of short ones."""

HIGHEST_SEED: Final = (1 << 63) - 1

MOST_ITEMS: Final = 1000
"""In a list of settings: positions, frame sizes, loads."""

MOST_INPUT_BYTES: Final = 64_000_000
"""Of a ruleset, some hundred thousand rules, or of a model file; a device takes some 100 kB."""

MOST_JSON_BYTES: Final = 128_000_000
"""Of a stored JSON file: twice the plan of a run with 100,000 trials."""

MOST_JSON_VALUES: Final = 8_000_000
"""In a stored JSON file; they take up to some 100 bytes of memory each."""

MOST_MANIFEST_BYTES: Final = 16_000_000
"""Of a run's manifest, which usually has a few thousand."""

MOST_BYTES: Final = 100_000
"""Of a scenario file; the longest of those that come with Weir has 3,000."""

MOST_VALUES: Final = 10_000
"""In a scenario file, keys, lists and what aliases repeat included."""

MOST_LEVELS: Final = 20
"""Of nesting in a scenario file."""

MOST_PLAN_BYTES: Final = 1_000_000
"""Of a numbering plan's YAML file; long tables of prefixes belong in CSV files beside it."""

MOST_PLAN_VALUES: Final = 100_000
"""In a numbering plan's YAML file."""

MOST_PLAN_ROWS: Final = 1_000_000
"""In a CSV file of prefixes, or a zone file."""
