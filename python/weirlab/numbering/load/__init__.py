"""How many calls per second the engines of a numbering plan set up.

``counted`` reads SIPp's statistics, ``trials`` searches, ``study`` goes from a scenario to a stored run.
"""
