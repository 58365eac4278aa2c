"""``weir web``: runs, captures and live TCP tests in a browser.

``service`` puts the application together. ``access`` decides who may ask. Everything that is measured here
gets a data ID and is kept by ``measurements``. What takes long, or reads foreign bytes, is
done by ``children``.
"""
