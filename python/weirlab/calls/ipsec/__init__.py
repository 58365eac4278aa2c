"""What security costs a call: bytes on the wire, processing time, quality."""
