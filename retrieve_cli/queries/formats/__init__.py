"""What a file that the user hands in says about itself, as tokens: one file a family of formats, headers only."""
