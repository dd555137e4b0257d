"""Campaign: one archive of data, a run of limited time on a machine with a GPU, and the parts that
are copied back."""
