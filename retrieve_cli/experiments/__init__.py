"""What is done with judged queries: evaluate, compare, ablate, tune, calibrate, report."""
