"""Measurements of tricks in a project: variants, pairs of runs, and their differences."""
