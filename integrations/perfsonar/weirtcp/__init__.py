"""pScheduler plug-ins for ``weir tcp measure``: the test class and the tool ``weirtcp``.

Needs Python 3.9 and jsonschema, which pScheduler brings; Weir itself is a program that the tool starts.
"""
