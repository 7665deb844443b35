"""Running the code of each kind of targets."""
