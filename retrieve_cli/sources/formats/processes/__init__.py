"""Separate processes in which documents are parsed and drawn: no network, no writing, bounded memory and time."""
