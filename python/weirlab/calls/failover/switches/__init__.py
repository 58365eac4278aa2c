"""What happens to ongoing calls when the active firewall of a redundant pair goes down.

``plan`` says which switches, ``load`` finds what the pair carries, ``campaign`` carries out one
switch after the other (``event`` lets it happen, ``switch`` takes the numbers from its packets,
``validity`` judges it, ``rows`` keeps it), ``compare`` draws the conclusions.
"""
