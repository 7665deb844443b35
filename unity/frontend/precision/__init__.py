"""Models in reduced precision: calibrated, compared, chosen."""
