"""Executors: workers that embed passages, as processes of this machine or actors of a Ray cluster."""
