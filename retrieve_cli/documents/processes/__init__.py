"""Processes of their own in which documents are parsed: no network, no writing, bounded memory and time."""
