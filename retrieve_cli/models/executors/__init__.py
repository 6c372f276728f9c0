"""Executors: where texts are embedded: processes of this machine, other machines, Ray."""
