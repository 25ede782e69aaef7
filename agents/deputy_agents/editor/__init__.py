"""Places in code as agents and users name them: mentions in prompts, completion, references in answers, findings of
reviews. The port to a connected editor is ``ports/editor.py``."""
