"""Recording a link without touching it: the bridge in this process, the recorder in another.

``tap`` sets up a tap or a logger, ``session`` watches it; ``recording`` runs the recorder in a separate
process, so that its failure cannot affect the link; ``host`` changes interfaces and restores them, and
bridges where XDP cannot run; ``account`` says where every frame went, ``manifest`` keeps that next to the
record.
"""
