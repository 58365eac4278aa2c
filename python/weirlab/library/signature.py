"""Signatures of bundles: those of OpenSSH, made and checked by ``ssh-keygen``, with keys that users have.

What is signed is the manifest, in the namespace ``weir-profile`` (``PROTOCOL.sshsig`` of OpenSSH).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from weirlab.base import files, programs
from weirlab.base.errors import InputError, MissingCapability
from weirlab.base.quoting import shortened
from weirlab.library.bundle import MANIFEST, SIGNATURE, ProfileBundle

NAMESPACE: Final = "weir-profile"
SIGNERS: Final = Path(__file__).with_name("signers")
"""Who signs the profiles that come with Weir, as OpenSSH's ``allowed_signers``."""
_MOST_SIGNERS_BYTES: Final = 1_000_000
_KEY: Final = re.compile(r"\bSHA256:[A-Za-z0-9+/]{43}")


@dataclass(frozen=True)
class BundleSignature:
    """Who signed a bundle. The content is as it was signed."""

    key: str
    """Fingerprint of the key; empty: there is no signature."""
    signer: str
    """Whose key it is, by the given list; empty: the key is not on it."""

    def __str__(self) -> str:
        if not self.key:
            return "not signed"
        return f"signed by {self.signer or 'a key that is not on the list'}, {self.key}"


def sign(bundle: ProfileBundle, key: Path) -> ProfileBundle:
    """``bundle`` signed with an OpenSSH key: a private one, or a public one whose private one an agent has.

    Raises
    ------
    InputError
        The key cannot be used.
    """
    found = _ssh_keygen(
        "-Y", "sign", "-f", str(key.absolute()), "-n", NAMESPACE, content=bundle.members[MANIFEST]
    )
    if found.returncode or not found.stdout.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        raise InputError(
            f"--sign {key}: ssh-keygen does not sign with it ({_told(found)}); give an OpenSSH private key "
            "without a passphrase, or the public key of one that ssh-agent holds"
        )
    return ProfileBundle(bundle.manifest, {**bundle.members, SIGNATURE: found.stdout})


def signature(bundle: ProfileBundle, signers: Path = SIGNERS) -> BundleSignature:
    """Check the signature of ``bundle``, and look its key up in ``signers`` (``allowed_signers``).

    Raises
    ------
    InputError
        The signature is not one of this content, or ``signers`` cannot be read.
    """
    if SIGNATURE not in bundle.members:
        return BundleSignature("", "")
    content = bundle.members[MANIFEST]
    listed = files.read_bytes(signers, "a list of signers", _MOST_SIGNERS_BYTES)
    with TemporaryDirectory(prefix="weir-signature-") as folder:
        made, known = Path(folder) / "sig", Path(folder) / "signers"
        files.write_bytes(made, bundle.members[SIGNATURE])
        files.write_bytes(known, listed)
        plain = ("-Y", "check-novalidate", "-n", NAMESPACE, "-s", str(made))
        found = _ssh_keygen(*plain, content=content)
        key = _KEY.search(found.stdout.decode(errors="replace"))
        if found.returncode or key is None:
            raise InputError(
                f"the signature of bundle {bundle.manifest.name} is not one of its content: do not use it; "
                "ask for the bundle again"
            )
        named = _ssh_keygen("-Y", "find-principals", "-f", str(known), "-s", str(made), content=b"")
        signer = (
            named.stdout.decode(errors="replace").strip().partition("\n")[0] if not named.returncode else ""
        )
        if signer:
            who = ("-Y", "verify", "-f", str(known), "-I", signer, "-n", NAMESPACE, "-s", str(made))
            # The list may limit a key to a time or to other purposes.
            if _ssh_keygen(*who, content=content).returncode:
                signer = ""
    return BundleSignature(key[0], shortened(signer, 100))


def _ssh_keygen(*words: str, content: bytes) -> Any:
    if programs.find("ssh-keygen") is None:
        raise MissingCapability("signatures need ssh-keygen: install OpenSSH's client (openssh-client)")
    # Without a terminal: it would stop there to ask for a passphrase.
    return programs.run(["ssh-keygen", *words], input=content, capture_output=True, start_new_session=True)


def _told(done: Any) -> str:
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return shortened(lines[-1], 200) if lines else f"exit code {done.returncode}"
