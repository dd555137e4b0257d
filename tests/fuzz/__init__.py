"""A fuzzer of every reader: `python -m tests.fuzz --minutes 30`, see docs/reliability.md."""
