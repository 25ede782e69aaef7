"""The offline model: searches and edits by fixed rules, so that everything can be tried without a key and a network.

It is a model like any other: it sees only the request, and answers with text and tool calls."""
