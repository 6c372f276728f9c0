"""Answers as text, table, json, jsonl, csv, md and trec; the journal of runs."""
