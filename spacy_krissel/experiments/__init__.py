"""Experiments: pipelines that differ in one thing, each trained, evaluated and put in one table."""
