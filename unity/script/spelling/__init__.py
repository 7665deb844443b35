"""The spelling of each construct, for the reader and the printer."""
