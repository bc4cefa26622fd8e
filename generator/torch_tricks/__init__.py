"""The package behind the `torch-tricks` command."""
