"""Self-supervised mentions: the name matcher, mining over text files, and the shards that mining writes."""
