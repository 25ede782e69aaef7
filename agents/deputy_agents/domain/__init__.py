"""Values that the whole package shares: ids, messages, events, outcomes, settings, rules. Nothing here does I/O,
keeps state or imports the rest of the package."""
