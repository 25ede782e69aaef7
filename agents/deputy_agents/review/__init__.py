"""What agents changed in files since the user last reviewed it, as pure values: which lines, which agent, and what
keeping or undoing them means. Nothing here reads a file or the store."""
