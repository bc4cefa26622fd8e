"""Runs the command line as `python -m torch_tricks`."""

from torch_tricks.cli import app

app(prog_name="torch-tricks")
