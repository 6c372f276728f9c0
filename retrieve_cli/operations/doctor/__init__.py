"""Diagnose problems and print the fix; reads only; measuring encoders (`--advise`) may write the model cache."""
