"""Stages of `gpu.py`, each run by a process of its own (`run.py`)."""
