"""The folder of results of earlier builds, and the keys of its entries."""
