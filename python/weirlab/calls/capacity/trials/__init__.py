"""How many calls a device carries.

``boxes`` compares what was sent and received with what the device's interfaces counted, ``rows`` has the
columns that each trial leaves in the tables ``capacity`` and ``inside``, ``keeper`` puts them there.
``losses`` tells lost packets by what the host did when they departed, and where the device begins to drop.
``search`` looks for the most calls that still do.
"""
