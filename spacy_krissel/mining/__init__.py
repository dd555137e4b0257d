"""Self-supervised mentions: name matcher, mining of text files, and shards of mined mentions."""
