"""Why attempts were invalid, counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable


def reason_counts(invalid: Iterable[str]) -> dict[str, int]:
    """How often each kind of reason occurred, most frequent first.

    Parameters
    ----------
    invalid:
        The column ``invalid`` of invalid attempts: reasons joined by ``"; "``. Numbers, and text after
        a colon or in parentheses, differ from attempt to attempt and are left out.
    """
    kinds = Counter(_kind(reason) for reasons in invalid for reason in str(reasons).split("; "))
    return dict(sorted(kinds.items(), key=lambda item: -item[1]))


def _kind(reason: str) -> str:
    kind = re.split(r"[:(]", reason, maxsplit=1)[0]
    kind = re.sub(r"\bfor \d[\d.,]* m?s\b", "for too long", kind)
    return re.sub(r"\d[\d.,]*", "…", kind).strip()
