"""The ground floor: errors, sources, options, small algorithms. Imports nothing of the package."""
