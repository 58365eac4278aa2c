"""One sentence about link and record; pure."""

from __future__ import annotations

from collections.abc import Sequence

from weirlab.link.account import FrameBalance


def verdict(account: FrameBalance, troubles: Sequence[str] = ()) -> str:
    """One sentence: is the link unharmed, and is the record complete?

    ``troubles`` are the current problems of the recorder.
    """
    parts = (
        _of_the_link(account),
        _of_the_mirror(account),
        _of_the_record(account),
        _of_cuts(account),
        _of_sums(account),
    )
    said = [text for text in parts if text]
    sentence = "; ".join([*said, *troubles])
    return f"{sentence[:1].upper()}{sentence[1:]}."


def _of_the_link(account: FrameBalance) -> str:
    if not account.sides:
        return ""
    lost = account.not_forwarded
    if lost == 0 and account.assumed:
        return (
            f"the link is bridged: {_frames(account.forwarded)} forwarded; what the other end refused is "
            "unknown"
        )
    if lost == 0:
        return f"the link is unharmed: {_frames(account.forwarded)} forwarded, none lost"
    where = " and ".join(
        f"{side.not_forwarded:,} from {side.interface}" for side in account.sides if side.not_forwarded
    )
    reasons = sorted({side.reason for side in account.sides if side.reason})
    because = f": {'; '.join(reasons)}" if reasons else ""
    return f"the link loses frames: {lost:,} of {account.received:,} were not forwarded ({where}){because}"


def _of_the_mirror(account: FrameBalance) -> str:
    mirror = account.mirror
    if mirror is None:
        return ""
    if mirror.not_sent == 0:
        return (
            f"every copy left by {mirror.interface}"
            if mirror.waiting == 0
            else f"copies leave by {mirror.interface}"
        )
    because = f": {mirror.reason}" if mirror.reason else ""
    return f"{mirror.not_sent:,} copies did not leave by {mirror.interface}{because}"


def _of_the_record(account: FrameBalance) -> str:
    if not account.recording:
        return ""
    if account.missing or account.unknown:
        return _of_missing(account)
    if account.interrupted and not account.finished:
        return "a recorder ended early: how many frames it lost will be known at the end"
    if account.failures or account.gaps or (account.finished and account.broken_sums()):
        return "the record may lack frames"
    kept = f", {account.filtered:,} were filtered out" if account.filtered else ""
    whole = "no frame is missing from the record" if account.cut else "the record is complete"
    if account.sides:
        return f"{whole}{kept}"
    return f"{whole}: {_frames(account.written)} written{kept}"


def _of_missing(account: FrameBalance) -> str:
    places = (
        (account.ring_lost, "at the ring (the recorder, or its disk, was too slow or stalled)"),
        (account.not_written, "at the disk"),
        (account.vanished, "with a recorder that died"),
    )
    where = ", ".join(f"{number:,} {place}" for number, place in places if number)
    uncounted = "a recorder ended early, and the frames it lost were not counted"
    if not account.unknown:
        return f"the record is missing {_frames(account.missing)}: {where}"
    if account.missing == 0:
        return f"the record is missing an unknown number of frames: {uncounted}"
    return (
        f"the record is missing {_frames(account.missing)} and an unknown number more: {where}; {uncounted}"
    )


def _of_cuts(account: FrameBalance) -> str:
    if account.cut == 0:
        return ""
    return f"only the first bytes of {_frames(account.cut)} were copied, because the link needed the CPU"


def _of_sums(account: FrameBalance) -> str:
    broken = account.broken_sums() if account.finished else ()
    return "; ".join(f"counters disagree ({each.what}: {each.left:,} and {each.right:,})" for each in broken)


def _frames(count: int) -> str:
    return f"{count:,} frame" if count == 1 else f"{count:,} frames"
