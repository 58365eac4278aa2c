"""Packets without speech: silence, as each codec encodes it."""

from __future__ import annotations

from weirlab.traffic.calls.codecs import VoiceStream

# RFC 6716 table 2: full-band CELT frames of up to 20 ms, wide-band SILK frames above.
_OPUS_CONFIG = {2.5: 28, 5.0: 29, 10.0: 30, 20.0: 31, 40.0: 10, 60.0: 11}
_OPUS_FRAME_MS = 20.0
_OPUS_FRAME_BYTES = 1275
"""No frame is longer (section 3.4, R2)."""


def silence(stream: VoiceStream) -> bytes:
    """A packet of ``stream`` without speech.

    If the codec has no simple code for silence, these are zeros: right in length, and for Opus in
    what the first byte says about frames (RFC 6716 section 3), but not meant to be played.
    """
    size = stream.payload_bytes
    if stream.codec.name == "opus":
        return _opus(stream.packet_ms, size)
    filler = bytes.fromhex(stream.codec.filler)
    return (filler * -(-size // len(filler)))[:size]


def _opus(packet_ms: float, size: int) -> bytes:
    if packet_ms in _OPUS_CONFIG and size - 1 <= _OPUS_FRAME_BYTES:
        return bytes([_OPUS_CONFIG[packet_ms] << 3]) + bytes(size - 1)
    # Code 3 with lengths: several frames, of 20 ms here, the last one taking the rest.
    frames = round(packet_ms / _OPUS_FRAME_MS)
    length = (size - 2) // frames - 2
    lengths = _opus_length(length) * (frames - 1)
    head = bytes([_OPUS_CONFIG[_OPUS_FRAME_MS] << 3 | 3, 1 << 7 | frames]) + lengths
    return head + bytes(size - len(head))


def _opus_length(length: int) -> bytes:
    """RFC 6716 section 3.2.1."""
    if length < 252:
        return bytes([length])
    return bytes([252 + length % 4, (length - 252) // 4])
