"""From text to concrete syntax: grammar, indentation, recovery after errors."""
