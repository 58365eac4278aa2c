"""Devices that Weir does not build: reached by a login, changed by an operator or by the user's program.

A *target* is where a device's commands run: a namespace of this host (``target``), or another host by OpenSSH
(``ssh``). ``filters`` knows what Weir creates there and how that is removed; ``session`` changes a device by
these rules and has the device itself undo that if Weir does not come back (``deadman``); ``readings`` is what
the device counts; ``device`` is the driver.
"""
