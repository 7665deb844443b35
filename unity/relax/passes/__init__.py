"""Graph passes that no pipeline runs: those of TVM that its users put into pipelines of their own."""
