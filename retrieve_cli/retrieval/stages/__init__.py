"""Rankings to rankings, and the pipeline that they make up."""
