"""Experiments on judged queries: evaluate, compare, ablate, tune, calibrate, report."""
