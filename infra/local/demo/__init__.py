"""`make demo`: the whole system on this machine, from filled buckets to balanced books."""
