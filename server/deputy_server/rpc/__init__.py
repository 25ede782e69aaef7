"""What the front ends for editors share of speaking JSON-RPC over standard input and output."""
