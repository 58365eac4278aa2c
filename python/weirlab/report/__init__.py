"""What pages are made of: numbers, charts, tables, stories, and the HTML file around them."""
