"""The engines of a plan in namespaces: BIND, Kamailio, Asterisk, gatekeepers; SIPp and lines of MGCP."""

from weirlab.numbering.lab.lab import VoiceLab
from weirlab.numbering.lab.recorder import Frame

__all__ = ["Frame", "VoiceLab"]
