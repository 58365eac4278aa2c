"""Profiles that others measured, as signed files: their trials, their models, and the host they come from.

A bundle is one file, named by its content (:mod:`weirlab.library.bundle`). A library is a folder of bundles,
also behind a web server (:mod:`weirlab.library.places`). ``docs/library.md`` specifies both.
"""

from weirlab.library.bundle import BundleManifest, ProfileBundle, packed, read_bundle
from weirlab.library.places import LibraryEntry, ProfileLibrary, libraries, named

__all__ = [
    "BundleManifest", "LibraryEntry", "ProfileBundle", "ProfileLibrary", "libraries", "named", "packed",
    "read_bundle",
]  # fmt: skip
