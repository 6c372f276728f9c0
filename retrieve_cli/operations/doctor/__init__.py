"""Diagnose problems and print the fix; reads only."""
