"""Voice routing: one numbering plan of SIP, H.323, MGCP and ENUM, and everything that follows from it.

``plan`` is the document, ``routing`` says where a number goes, ``checking`` finds mistakes, ``zones`` and
``configs`` write what DNS servers and engines read, ``lab`` runs the engines, ``proof`` makes test calls.
"""
