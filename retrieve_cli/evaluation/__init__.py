"""Judgments, measures, intervals, calibration and gates."""
