"""Slash commands that Deputy carries out itself, without a request to the model that answers prompts."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BuiltinCommand:
    """A :class:`deputy_agents.guidance.items.SlashCommand` of Deputy."""

    name: str
    description: str
    argument_hint: str | None = None


BUILTIN_COMMANDS: Mapping[str, BuiltinCommand] = {
    command.name: command
    for command in (
        BuiltinCommand("compact", "Replace the conversation by a summary", "[what to keep]"),
        BuiltinCommand("context", "Show what fills the context window"),
        BuiltinCommand("clear", "Continue without the conversation so far"),
        BuiltinCommand("model", "Show or change the model", "[name]"),
        BuiltinCommand("mode", "Show or change the permission mode", "[mode]"),
        BuiltinCommand("rewind", "Go back to a checkpoint, or list them", "[number] [files|conversation]"),
        BuiltinCommand("fork", "Continue in a new session too, from now or a checkpoint", "[number]"),
    )
}
"""By name. A file of the user with the name of one is not used."""
