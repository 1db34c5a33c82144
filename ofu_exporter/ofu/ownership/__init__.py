"""Whose a window is: takes what schedulers say, and credits jobs. The tick goes in by tick.py."""
