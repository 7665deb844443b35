"""Building modules in Python with operators: ``BlockBuilder``, visitors, and TVM's names of nodes and of tensor functions."""
