"""Knowledge graphs in files: reading, merging of equivalent nodes, and writing."""
