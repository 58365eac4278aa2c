"""An emulated link between two interfaces: delay, rate, queue, loss and order, each direction by itself.

``running`` puts a link between two interfaces (``emulated_link``). :mod:`weirlab.emulation` says what a
direction does to frames, reads it from text, and counts what became of frames.
``docs/link-emulator.md`` has the semantics.
"""
