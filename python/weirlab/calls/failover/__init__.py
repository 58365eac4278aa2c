"""What happens to ongoing calls when one of two redundant firewalls goes down."""
