"""Faults while writing, damage on disk, threads and a model of the knowledge base;
`python -m tests.reliability`."""
