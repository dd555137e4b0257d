"""Readers of files with pairs of an id and a label, which also write corrected copies."""
