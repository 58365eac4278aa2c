"""How right the predictions were: letter-value plots, tables and sentences on held-out trials."""
