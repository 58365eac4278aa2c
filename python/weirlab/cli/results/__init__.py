"""Parts of results that several commands share: tables, phrases, verdicts on requirements, files."""
