"""The engines of a plan in namespaces: BIND, Kamailio, and SIPp where calls begin and end."""

from weirlab.studies.voice.lab.lab import VoiceLab
from weirlab.studies.voice.lab.seen import Frame, pcap

__all__ = ["Frame", "VoiceLab", "pcap"]
