"""Why a transfer was slow: where the time of its sender went, by cause, with the evidence; pure.

Observations become a :class:`~weirlab.diagnosis.timeline.Timeline`: ``kernel.read`` makes one from samples of
the sender's kernel, ``capture.read`` from packets (in Rust), ``tracing`` from the rows of a trace.
``diagnosing.diagnose`` applies the rules to it. Nothing heavy is imported here.
"""
