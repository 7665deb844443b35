"""From a torch model to an exported program: what is refused, traced."""
