"""Which of several diagnoses of one transfer is said, and what is said of the others."""

from __future__ import annotations

from weirlab.diagnosis import causes
from weirlab.diagnosis.causes import Cause, Source
from weirlab.diagnosis.finding import Diagnosis, DiagnosisFinding, TransferSummary
from weirlab.transfers.tcp.study.kept import most_telling

NUMBERS = TransferSummary(1, 1.0, 8.0, 1, 1.0, 0, 0.0, None, None, None, None, None, None, None)


def diagnosis(source: Source, cause: Cause, share: float) -> Diagnosis:
    sentence = f"{share * 100:.0f} % of the time {cause.held}: evidence."
    finding = DiagnosisFinding(cause, share, share, "high", sentence, ())
    return Diagnosis(source, sentence, (finding,), (), (), NUMBERS)


def test_places_that_disagree_are_one_sentence() -> None:
    kernel = diagnosis("kernel", causes.BOTTLENECK, 0.82)
    capture = diagnosis("sender", causes.APPLICATION_WRITE, 0.73)
    assert most_telling({"kernel": kernel, "sender": capture}).sentence == (
        "82 % of the time the bottleneck was saturated: evidence. From a capture at the sender alone "
        "it looks as if 73 % of the time the application had nothing to send."
    )


def test_places_that_agree_who_it_was_or_cannot_tell_add_nothing() -> None:
    kernel = diagnosis("kernel", causes.BOTTLENECK, 0.82)
    others = [
        diagnosis("sender", causes.LOSS, 0.9),
        diagnosis("receiver", causes.UNKNOWN, 0.9),
        diagnosis("between", causes.SEND_BUFFER, 0.3),
    ]
    found = {"kernel": kernel, **{other.source: other for other in others}}
    assert most_telling(found).sentence == kernel.sentence


def test_both_captures_are_believed_about_the_path_and_the_kernel_about_the_ends() -> None:
    on_path, at_end = diagnosis("kernel", causes.LOSS, 0.9), diagnosis("kernel", causes.NAGLE, 0.9)
    both = diagnosis("both", causes.REORDERING, 0.9)
    assert most_telling({"kernel": on_path, "both": both}).main is causes.REORDERING
    assert most_telling({"kernel": at_end, "both": both}).main is causes.NAGLE
