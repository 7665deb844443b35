"""Models written by hand, as in the papers, with random weights: for the examples, the tests and the benchmarks."""
