"""Plain support for all parts: units and quantities, errors, files, programs, documents, tables."""
