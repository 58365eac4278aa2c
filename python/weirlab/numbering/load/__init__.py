"""How many calls per second the engines of a numbering plan set up.

``trials`` searches and reads SIPp's statistics, ``study`` goes from a scenario to a stored run.
"""
