"""Code for processors."""
