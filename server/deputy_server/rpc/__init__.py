"""JSON-RPC over byte streams, shared by the front ends: framing, parsing, dispatch, errors, and output. Methods, and
everything that only LSP or only ACP defines, belong to the front ends."""
