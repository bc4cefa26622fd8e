"""Command measure: the effect of tricks, from pairs of training runs."""
