"""Answers of experiments to a publication, and what they leave out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from weirlab.publications import Publication
from weirlab.reproduction.contract import Answer


def unanswered(about: Publication, answers: Mapping[str, Iterable[str]]) -> list[str]:
    """What the publication's file has, and an experiment neither answers nor gives a reason for.

    ``experiment/key`` of each such value or claim; ``answers``: keys of answers by experiment.
    """
    return [
        f"{name}/{each.key}"
        for name, experiment in about.experiments.items()
        for each in (*experiment.values.values(), *experiment.claims.values())
        if each.key not in answers.get(name, ()) and not each.absent and not experiment.absent
    ]


def verdict(answer: Answer) -> str:
    assert answer.decision is not None
    return answer.decision.verdict
