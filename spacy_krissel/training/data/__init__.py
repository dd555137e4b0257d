"""Training data: corpus readers, batchers and negatives."""
