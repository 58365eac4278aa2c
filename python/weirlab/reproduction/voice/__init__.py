"""Woernhard 2006: synthetic calls, what the generator sends, what a firewall forwards, and its failover."""

from __future__ import annotations

from typing import Final

from weirlab.reproduction.contract import ReproducedExperiment
from weirlab.reproduction.voice.failover import HardFailover, SlowFailover, SoftFailover
from weirlab.reproduction.voice.flows import BurstLoss, FailoverFlows
from weirlab.reproduction.voice.forwarding import (
    BothDirections,
    CpuStates,
    FirewallConclusions,
    ForwardingCapacity,
    SamplerStarvation,
)
from weirlab.reproduction.voice.generator import (
    AddressRandomisation,
    CodecTable,
    GenerationTime,
    GeneratorMaximum,
    GeneratorPacing,
)

EXPERIMENTS: Final[tuple[ReproducedExperiment, ...]] = (
    CodecTable(), AddressRandomisation(), GeneratorMaximum(), GenerationTime(), GeneratorPacing(),
    ForwardingCapacity(), CpuStates(), SamplerStarvation(), BothDirections(), SlowFailover(),
    SoftFailover(), HardFailover(), FailoverFlows(), BurstLoss(), FirewallConclusions(),
)  # fmt: skip
