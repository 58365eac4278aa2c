"""Searching the loads that a device carries (RFC 9971, MLRsearch).

``goal`` says what is searched for and what was found, ``mlr`` is the search itself (the only
module that uses the package MLRsearch), ``trials`` carries out and keeps trials whose
number is not known beforehand, ``throughput`` searches one setting of a device.
"""
