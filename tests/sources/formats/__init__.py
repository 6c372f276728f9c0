"""Tests of documents: a package, so that a process that parses may read `sandbox.odd_parsers`."""
