"""The parts of report pages: numbers, charts, tables, stories, and the HTML file around them."""
