"""An emulated link between two interfaces: delay, rate, queue, loss and order, each direction by itself.

``spec`` says what a direction does to frames, ``reading`` reads it from text, ``running`` puts a link
between two interfaces (``emulated_link``), ``account`` tells what became of frames.
``docs/link-emulator.md`` has the semantics.
"""
