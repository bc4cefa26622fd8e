"""Statements that need a GPU, a cluster or a network: file, quote and reason."""

NOT_RUN: list[tuple[str, str, str]] = []
