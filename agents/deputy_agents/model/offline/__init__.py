"""The offline model: searches and edits by fixed rules, so that all features can be tried without a key or a network.

Like every model it sees only the request, and replies with text and tool calls."""
