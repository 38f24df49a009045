"""Scenarios of another agent than this package's own are played by `test_third_party`, which names that agent."""

collect_ignore = ["third_party"]
