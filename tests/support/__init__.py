"""Drives the real program from outside: a raw client over a real process, its stored log, and scripts for its model."""
