"""The data that the parts of the search hand each other."""
