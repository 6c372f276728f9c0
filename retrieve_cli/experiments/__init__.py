"""What is done with judged queries and an index: measured, compared, switched off in turn, tuned, calibrated."""
