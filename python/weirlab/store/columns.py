"""The columns that every run with trials has, as rows: ``trials`` and what belongs to each trial.

Counts are signed, so that differences of columns cannot wrap around. Where nothing was
measured (no delay because nothing arrived, no thermometer) a value is null, never NaN.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TrialRow:
    """One attempt at a trial: what was sent, what arrived, and what the host did meanwhile.

    Packets that departed in the recorded time count, less the bins that the host disturbed (``left_out``);
    docs/engine.md says how they are counted.
    """

    trial_id: str
    """Unique; the other tables refer to it."""
    run_id: str
    """The run that the attempt belongs to."""
    index: int
    """Number of the trial in its run, from 0; repeated attempts share it."""
    attempt: int
    """Number of the attempt at this trial, from 1."""
    role: str
    """Purpose: `profile`, `verify`, `single`, `calibrate`, `search` or `calls`."""
    label: str
    """Its name in the plan; may be empty."""
    started_at: str
    """Date and time of its start, ISO 8601, UTC."""
    lab: str
    """Kind of test bed: `netns`, `sim`, ..."""
    dut: str
    """Device under test."""
    backend: str
    """What sent and received the packets: `xdp`, `af_packet`, `sim`, or `tcp` for the kernel of this host."""
    xdp_mode: str
    """How the XDP programs were attached; empty without XDP."""
    position: int
    """Matching position: the place of the rule that accepts the test traffic, 0 without rules; the last one
    where several rules accept a share each."""
    mean_position: float
    """Mean matching position of the packets; of answered ones, 0 for those of known connections."""
    places: str
    """Positions and shares where several rules accept test traffic; empty where one does."""
    stateful: bool
    """Whether connection tracking comes before the rules."""
    cross_traffic: bool
    """Whether a management session was open."""
    rate_text: str
    """Offered load as text, steps included."""
    sizes_text: str
    """Frame sizes as text: `64`, `imix`."""
    frame_bytes: float
    """Mean frame size, FCS included."""
    flows: int
    """Number of flows."""
    warmup_s: float
    """Time before the recorded time."""
    record_s: float
    """Recorded time that counts."""
    offered_pps: float
    """Nominal load, averaged over the recorded time; infinite for as fast as possible."""
    achieved_pps: float
    """Load that departed."""
    forwarding_pps: float
    """Packets received per recorded second; with a backlog, all of the trial per second until it was sent."""
    sent: int
    """Packets that departed."""
    received: int
    """Of these, packets that arrived, each once."""
    lost: int
    """Packets sent less packets received."""
    loss_ratio: float
    """`lost` over `sent`."""
    duplicated: int
    """Arrivals of packets that had already arrived."""
    reordered: int
    """Packets that arrived after one with a higher sequence number of their flow (RFC 4737)."""
    stray: int
    """Frames at the receiver that were not probes of this trial."""
    receiver_dropped: int
    """Frames that the receiver's socket had no room for."""
    sent_warmup: int
    """Packets that departed before the recorded time."""
    delay_min_ns: float
    """Least one-way delay."""
    delay_mean_ns: float
    """Mean one-way delay."""
    delay_sd_ns: float
    """Standard deviation of the one-way delays, from their histogram; null in runs of earlier versions."""
    delay_max_ns: float
    """Greatest one-way delay."""
    delay_p50_ns: float
    """Median one-way delay."""
    delay_p90_ns: float
    """90th percentile of the one-way delay."""
    delay_p99_ns: float
    """99th percentile of the one-way delay."""
    delay_p999_ns: float
    """99.9th percentile of the one-way delay."""
    jitter_ns: float
    """Mean difference in delay between consecutive packets of a flow (RFC 3550)."""
    longest_gap_ns: float
    """Longest time between two arrivals at one receive queue."""
    record_start_ns: int
    """Start of the recorded time, CLOCK_MONOTONIC."""
    record_end_ns: int
    """End of the recorded time, CLOCK_MONOTONIC."""
    first_departure_ns: int
    """First departure in the recorded time, CLOCK_MONOTONIC."""
    last_departure_ns: int
    """Last departure in the recorded time, CLOCK_MONOTONIC."""
    first_arrival_ns: int
    """First arrival of a recorded packet, CLOCK_MONOTONIC."""
    last_arrival_ns: int
    """Last arrival of a recorded packet, CLOCK_MONOTONIC."""
    late_mean_ns: float
    """Mean lateness of departures against the schedule."""
    late_max_ns: int
    """Greatest lateness of a departure."""
    slipped_ns: int
    """How far the sender was behind its schedule at the end."""
    wall_s: float
    """How long the attempt took, on the wall clock."""
    sender_user_s: float
    """CPU time in user mode, the sender's CPU, whole attempt, as in the other `sender_` columns."""
    sender_nice_s: float
    """CPU time of processes with lowered priority, the sender's CPU."""
    sender_system_s: float
    """CPU time in the kernel, the sender's CPU."""
    sender_irq_s: float
    """CPU time in interrupts, the sender's CPU."""
    sender_softirq_s: float
    """CPU time in softirqs, the sender's CPU."""
    sender_steal_s: float
    """Time that the hypervisor took from the sender's CPU."""
    sender_idle_s: float
    """Idle time until the last departure, the sender's CPU."""
    sender_iowait_s: float
    """Idle time while disks worked, the sender's CPU."""
    sender_idle_poll_s: float
    """Part of the idle time in which Weir kept the sender's CPU awake."""
    dut_user_s: float
    """CPU time in user mode, the device's CPU, whole attempt, as in the other `dut_..._s` columns."""
    dut_nice_s: float
    """CPU time of processes with lowered priority, the device's CPU."""
    dut_system_s: float
    """CPU time in the kernel, the device's CPU."""
    dut_irq_s: float
    """CPU time in interrupts, the device's CPU."""
    dut_softirq_s: float
    """CPU time in softirqs, the device's CPU."""
    dut_steal_s: float
    """Time that the hypervisor took from the device's CPU."""
    dut_idle_s: float
    """Idle time until the last departure, the device's CPU."""
    dut_iowait_s: float
    """Idle time while disks worked, the device's CPU."""
    dut_idle_poll_s: float
    """Part of the idle time in which Weir kept the device's CPU awake."""
    frequency_mhz: float
    """Clock frequency of the CPU."""
    temperature_c: float
    """Temperature of the CPU."""
    memory_used_bytes: int
    """Memory in use on the host."""
    softnet_dropped: int
    """Packets that the host's softnet backlog had no room for."""
    softnet_squeezed: int
    """Times that the host's softirq ran out of its budget."""
    dut_wait_s: float
    """Time that the device was ready to run but something else had its CPU."""
    handover_ns: float
    """Time for a cache line to pass from the sender's CPU to the device's and back."""
    handover_change: float
    """Factor by which that changed during the attempt; 1 or more."""
    management_s: float
    """CPU time of the management session; null without one."""
    rules_expected: float
    """Of your own rules, those with which Weir expected each packet to be compared; null for calls."""
    rules_met: float
    """Of your own rules, those with which a packet was compared on average, by counters."""
    rules_matched: float
    """Share of the packets that met their verdict at the rule that they were to meet, by counters."""
    dropped_pps: float
    """Packets that the rule dropped that they were to meet, per second; null if it accepts them."""
    rules_counted_in: str
    """Where `rules_met` was counted: in the `device`, or with a few packets in a `copy` of its rules; empty
    if nowhere. `rules_matched` is counted in the device if the rule has a counter there."""
    new_share: float
    """Share of the packets that each opened a further flow; null unless flows were answered."""
    answers_sent: int
    """Answers to test packets that departed; null unless flows were answered, as for what follows."""
    answers_received: int
    """Of these, answers that the device carried back."""
    answers_delay_mean_ns: float
    """Their mean one-way delay."""
    answers_delay_p99_ns: float
    """The 99th percentile of it."""
    open_flows: int
    """Flows of which the sender got an answer."""
    established_sent: int
    """Packets of the whole trial, in both directions, that a rule for known connections would have met
    without loss."""
    established_packets: int
    """Packets that the device's rules for known connections met, by their counters."""
    left_out_s: float
    """Recorded time that does not count because the host disturbed it."""
    left_out: str
    """What does not count, JSON: a list of `[begin_ns, end_ns, why]` from the start of recording."""
    disturbed_sent: int
    """`sent` with what was left out; null where nothing was, as for the other `disturbed_` columns."""
    disturbed_received: int
    """`received` with what was left out."""
    disturbed_delay_mean_ns: float
    """Mean delay with what was left out."""
    disturbed_delay_p99_ns: float
    """99th percentile of the delay with what was left out."""
    dut_counters: str
    """Counters of the device, JSON by name."""
    spec: str
    """The requested trial, JSON."""
    invalid: str
    """Reasons why the attempt does not count, joined by `; `; empty for a valid one."""
    valid: bool
    """Whether the attempt counts."""


@dataclass(frozen=True)
class HistogramRow:
    """One bucket of a trial's delay histogram, at most 1 % wide; empty ones are left out."""

    lower_ns: int
    """Least delay in the bucket."""
    upper_ns: int
    """End of the bucket; its delays are below."""
    count: int
    """Packets."""


@dataclass(frozen=True)
class SeriesRow:
    """One bin of a trial's time series, by departure."""

    start_ns: int
    """Begin of the bin, from the start of recording."""
    sent: int
    """Packets that departed in the bin."""
    received: int
    """Of these, packets that arrived."""
    delay_mean_ns: float
    """Their mean one-way delay."""
    delay_max_ns: float
    """Their greatest one-way delay."""


@dataclass(frozen=True)
class FlowRow:
    """One flow of a trial, over all of the recorded time."""

    flow: int
    """Number of the flow, from 0."""
    sent: int
    """Packets that departed."""
    received: int
    """Of these, packets that arrived, each once."""
    lost: int
    """Packets sent less packets received."""
    duplicated: int
    """Arrivals of packets that had already arrived."""
    reordered: int
    """Packets that arrived after one with a higher sequence number (RFC 4737)."""
    delay_min_ns: float
    """Least one-way delay."""
    delay_mean_ns: float
    """Mean one-way delay."""
    delay_max_ns: float
    """Greatest one-way delay."""
    jitter_ns: float
    """Smoothed estimate of RFC 3550 after the last packet."""
    longest_gap_ns: float
    """Longest time between two arrivals."""


@dataclass(frozen=True)
class CallRow:
    """The quality of one call in one direction; trials with calls only."""

    call: int
    """Number of the call, from 0."""
    back: bool
    """Direction: false where the sender's side talks."""
    call_class: int
    """Index of the class of calls in the scenario, from 0."""
    sent: int
    """Packets with speech that departed."""
    received: int
    """Of these, packets that arrived, each once."""
    lost: int
    """Packets sent less packets received."""
    duplicated: int
    """Arrivals of packets that had already arrived."""
    reordered: int
    """Packets that arrived after one with a higher sequence number (RFC 4737)."""
    loss_runs: int
    """Unbroken runs of lost packets."""
    longest_run: int
    """Packets in the longest of these."""
    burst_ratio: float
    """BurstR of ITU-T G.107: mean length of a run over what random loss would give; null without loss."""
    delay_min_ns: float
    """Least one-way delay."""
    delay_mean_ns: float
    """Mean one-way delay."""
    delay_p50_ns: float
    """Median one-way delay."""
    delay_p95_ns: float
    """95th percentile of the one-way delay."""
    delay_p99_ns: float
    """99th percentile of the one-way delay."""
    delay_max_ns: float
    """Greatest one-way delay."""
    jitter_ns: float
    """Mean over the packets of the estimate of RFC 3550."""
    jitter_max_ns: float
    """Its greatest value."""
    longest_gap_ns: float
    """Longest time between two arrivals."""
    late_fixed: int
    """Packets that arrived and that the fixed jitter buffer did not play: too late, or at a slip."""
    playout_fixed_ns: float
    """Mouth-to-ear delay after the fixed buffer: packet, network, buffer."""
    mos_fixed: float
    """MOS after the fixed buffer, 1 to 4.5 (ITU-T G.107)."""
    late_adaptive: int
    """Packets that arrived too late for the adaptive jitter buffer."""
    playout_adaptive_ns: float
    """Mouth-to-ear delay after the adaptive buffer."""
    mos_adaptive: float
    """MOS after the adaptive buffer, 1 to 4.5."""
    r_factor: float
    """Rating factor R after the better of the two buffers, 0 to 100."""
    mos: float
    """MOS after the better of the two buffers, 1 to 4.5."""
