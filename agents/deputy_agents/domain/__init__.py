"""Types that the whole package shares: ids, messages, events, outcomes, settings, rules. They do no I/O and import
nothing else of the package; all are immutable values, except for a running turn and the metrics."""
