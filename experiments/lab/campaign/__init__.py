"""One archive of data, a run of limited time on a machine with a card, and the parts that come home."""
