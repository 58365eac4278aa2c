"""POSIX extended regular expressions and the substitution expressions of RFC 3402 that ENUM is made of.

``syntax`` reads an expression, ``patterns`` matches whole numbers and numbers of which only the beginning
is known, ``substitution`` rewrites.
"""

from __future__ import annotations

from weirlab.numbering.ere.patterns import TAIL, MissingDigits, Pattern
from weirlab.numbering.ere.substitution import Substitution
from weirlab.numbering.ere.syntax import BadExpression

__all__ = ["TAIL", "BadExpression", "MissingDigits", "Pattern", "Substitution"]
