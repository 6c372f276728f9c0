"""Rankings and judgements to figures: qrels, measures, how sure the figures are, and the harness."""
