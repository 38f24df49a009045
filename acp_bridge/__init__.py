"""A coding agent for any Agent Client Protocol editor that never loses or repeats work when it is killed."""

__version__ = "0.1.0"
