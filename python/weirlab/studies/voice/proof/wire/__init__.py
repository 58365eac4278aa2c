"""What crosses the wire during a call: packets, SIP messages, questions to name servers, speech. Pure."""
