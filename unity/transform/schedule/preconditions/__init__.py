"""What primitives ask before they rewrite: conditions on blocks and loops, proved, refuted or tried."""
