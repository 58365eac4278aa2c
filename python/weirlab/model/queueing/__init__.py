"""The queueing model: laws of a server with a finite queue, and what they leave.

``model`` puts the laws together: ``service`` (time per packet), ``waiting`` (formulas of queues),
``delay`` and ``jitter`` (over load), ``disturbance`` (the host). ``leftover`` and ``kriging`` learn what
they leave; ``explain`` tells the numbers in words.
"""

from __future__ import annotations

from weirlab.model.queueing.model import Queueing

__all__ = ["Queueing"]
