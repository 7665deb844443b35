"""Steps as data: traces, their values, and traces of TVM's tuning records."""
