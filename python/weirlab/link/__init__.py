"""Recording a link without touching it: the bridge in this process, the recorder in another.

``tap`` puts a tap or a logger together, ``session`` watches it; ``recording`` keeps the recorder in a
process of its own, so that whatever becomes of it the link does not notice; ``host`` changes interfaces and
changes them back, and bridges where XDP cannot run; ``account`` says of every frame where it went,
``manifest`` keeps that beside the record.
"""
