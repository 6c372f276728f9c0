"""PDF: pdfium's words with their places become text, blocks and pages."""
