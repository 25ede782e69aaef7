"""What agents know about the project and the machine before they look: date, system, Git, languages and folders.

What users write for agents is in :mod:`deputy_agents.guidance`. The system prompt names the folders of the workspace.
"""
