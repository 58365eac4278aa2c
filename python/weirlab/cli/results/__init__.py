"""Results as several commands give them: tables, phrases, verdicts on requirements, files."""
