"""The engines of a plan in namespaces: BIND, Kamailio, Asterisk, gatekeepers; SIPp and lines of MGCP."""

from weirlab.numbering.lab.frames import Frame
from weirlab.numbering.lab.lab import VoiceLab

__all__ = ["Frame", "VoiceLab"]
