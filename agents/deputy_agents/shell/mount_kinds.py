"""What a sandboxed command gets at a path. Everything that is not mentioned can be read, but not written.

Shared with the guard, so it must load fast.
"""

WRITABLE = "writable"
"""The folder, to write."""
READ_ONLY = "read-only"
"""The file or folder, to read, although it is in a folder to write or in one that is empty."""
SCRATCH = "scratch"
"""An empty folder of its own, to write."""
HIDDEN = "hidden"
"""An empty folder."""
HIDDEN_FILE = "hidden-file"
"""An empty file."""
