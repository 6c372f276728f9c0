"""Requests and answers in the shapes of other programs: each file reads one form, and renders an answer as a pure
function."""
