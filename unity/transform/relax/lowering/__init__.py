"""From operators to tensor programs."""
