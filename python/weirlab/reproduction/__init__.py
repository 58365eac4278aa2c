"""Publications, repeated: their experiments are measured here, and every published number stands beside ours.

``contract`` says what an experiment is, ``claims`` has the tests that decide claims, ``study`` runs a
reproduction. Each publication has a module of experiments; its numbers are in ``weirlab.publications``.
"""
