"""The verifier: the rules that every module keeps between passes."""
