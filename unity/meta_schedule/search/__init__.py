"""Ways through the space: mutators of decisions, and strategies that choose what is measured."""
