"""JSON-RPC over streams, shared by the front ends: reading, validation, errors, open requests, writing. It knows no
methods."""
