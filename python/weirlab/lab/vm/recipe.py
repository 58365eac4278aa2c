"""What Weir's own virtual machine is made of: Debian packages, and programs and modules from them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

KERNEL: Final = "linux-image-cloud-amd64"
"""The package that names the newest kernel for virtual machines, half the size of the standard one."""

PROGRAMS: Final[Mapping[str, Sequence[str]]] = {
    "busybox-static": ["busybox"],
    "iproute2": ["ip", "tc"],
    "nftables": ["nft"],
    "wireguard-tools": ["wg"],
}
"""Programs by package. BusyBox provides all other commands."""

DELAYS: Final = "usr/lib/**/tc/*.dist"
"""The delay distributions of netem."""

NEEDED: Final = ("virtio_pci", "virtio_net", "virtio_console")
"""Modules that are indispensable; kernels may have them built in."""

MODULES: Final = (
    *NEEDED,
    # ESP, and the algorithms of its suites.
    "esp4", "esp6", "ah4", "ah6", "xfrm_user", "xfrm_interface", "tunnel4", "tunnel6", "drbg",
    "jitterentropy_rng", "aes_generic", "aesni_intel", "cbc", "ecb", "gcm", "ccm", "ctr", "ghash_generic",
    "ghash_clmulni_intel", "seqiv", "echainiv", "authenc", "authencesn", "hmac", "md5", "sha1_generic",
    "sha256_generic", "sha512_generic", "chacha20poly1305", "chacha_x86_64", "poly1305_x86_64", "crypto_null",
    "wireguard",
    # The packet filter, connection tracking and the flowtable.
    "crc32c_generic", "crc32c_intel", "nf_tables", "nf_conntrack", "nft_reject_inet", "nft_ct", "nft_numgen",
    "nft_limit", "nft_log", "nft_nat", "nft_masq", "nft_flow_offload", "nf_flow_table", "nf_flow_table_inet",
    "nft_chain_nat", "nft_hash",
    # Filters of tc.
    "cls_flower", "act_gact",
    # Captures and queueing disciplines.
    "af_packet", "sch_netem", "sch_tbf", "sch_fq", "sch_fq_codel", "sch_ingress", "cls_u32", "act_mirred",
)  # fmt: skip

INIT: Final = Path(__file__).with_name("init.sh")


def digest() -> str:
    """Hash of everything the image is made of, except the versions of the packages."""
    parts = (KERNEL, repr(sorted(PROGRAMS.items())), DELAYS, repr(MODULES), INIT.read_text())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
