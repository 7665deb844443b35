"""What rows are made of: their table, type rules, lowerings and loop nests. Nothing here is an operator."""
