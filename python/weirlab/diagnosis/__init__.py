"""Why a transfer was slow: where the time of its sender went, by cause, with the evidence; pure.

What was seen becomes a :class:`~weirlab.diagnosis.timeline.Timeline` (``kernel.read`` of samples of the
sender's kernel, ``capture.read`` of packets, ``tracing`` of a trace's tables); ``diagnosing.diagnose``
puts it before the rules. Nothing heavy is imported here.
"""
