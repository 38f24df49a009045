"""A session: its events, its log, and all that is folded from them.

Owns what happened and in which order, what a model is told of it, how a crash is repaired, and the ports through which
a log reaches the disk (`Store`) and waits for it (`Policy`). Knows no file, no provider, no protocol and no tool.
Pure but for the journal, which owns the order of writing.
"""
