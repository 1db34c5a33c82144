"""Writes reports: tables of text, pages, pictures, and rows for other programs."""
