"""Rules of nftables, as nft itself parses them."""
