"""linux/run, in parts: main.py is the command line."""
