"""H.225.0 RAS and call signalling, H.245, MGCP: ``voice_protocols.py ras|signalling|h245|mgcp ARGUMENTS``.

The arguments are those of libFuzzer; atheris runs it on Python.
"""

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
with atheris.instrument_imports(include=["weirlab.numbering", "pycrate_asn1rt", "pycrate_core"]):
    import voice_protocols

target = voice_protocols.TARGETS[sys.argv.pop(1)]


def run(data: bytes) -> None:
    """One input."""
    target(data)


atheris.Setup(sys.argv, run)
atheris.Fuzz()
