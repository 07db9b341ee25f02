"""The command line: learn a model from a table, predict with it, explain it, show it."""

from hardwood.cli._app import main as main
