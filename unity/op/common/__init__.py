"""The parts of rows: their table, type rules, lowerings and loop nests. Nothing here is an operator."""
