"""Tests of sources: a package, so that a process that parses may read `formats.sandbox.odd_parsers`."""
