"""The tests of RFC 2544 beside throughput: latency (section 26.2), frame loss rate (26.3) and
back-to-back frames (26.4, with RFC 9004). Throughput (26.1) is :mod:`weirlab.measure.search`.
"""
