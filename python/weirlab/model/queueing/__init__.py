"""The queueing model: laws of a server with a finite queue, and the residuals that they leave.

``model`` combines the laws: ``service`` (time per packet), ``waiting`` (formulas of queues),
``delay`` and ``jitter`` (over load), ``disturbance`` (the host). ``leftover`` and ``kriging`` learn the
residuals; ``explain`` puts the numbers into words.
"""

from __future__ import annotations

from weirlab.model.queueing.model import QueueingModel

__all__ = ["QueueingModel"]
