"""A transfer measured from all sides, as a study: scenario, place, rows, what was found."""
