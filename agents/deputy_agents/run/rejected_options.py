"""Options of requests that a model rejects although nothing is known about that: they are left out from then on."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum

from deputy_agents.ports.model import ModelRequest


class Option(StrEnum):
    """A part of a request that the model can do without. The value is for the user."""

    THINKING = "thinking"
    EFFORT = "effort"
    TEMPERATURE = "temperature"
    LONG_CACHE = "a cache of one hour"
    TOOLS = "tools"


_WORDS: Mapping[Option, re.Pattern[str]] = {
    Option.THINKING: re.compile(r"thinking|budget_tokens|reasoning", re.IGNORECASE),
    Option.EFFORT: re.compile(r"output_config|effort", re.IGNORECASE),
    Option.TEMPERATURE: re.compile(r"temperature", re.IGNORECASE),
    Option.LONG_CACHE: re.compile(r"ttl", re.IGNORECASE),
    Option.TOOLS: re.compile(
        r"\b(does not|doesn't|not) support(ed)?\b[^.]{0,40}\b(tools?|function call)"
        r"|\btools?\b[^.]{0,30}\bnot supported\b",
        re.IGNORECASE,
    ),
}
_IN_MESSAGES = re.compile(r"\bmessages[.\[]\d")
_USED: Mapping[Option, Callable[[ModelRequest], bool]] = {
    Option.THINKING: lambda request: request.thinking is not None,
    Option.EFFORT: lambda request: request.effort is not None,
    Option.TEMPERATURE: lambda request: request.temperature is not None,
    Option.LONG_CACHE: lambda request: request.long_cache_of_head or request.long_cache_of_messages,
    Option.TOOLS: lambda request: bool(request.tools),
}


class RejectedOptions:
    """The rejected options of each model of a session."""

    def __init__(self) -> None:
        self._by_model: dict[str, frozenset[Option]] = {}

    def of(self, model: str) -> frozenset[Option]:
        return self._by_model.get(model, frozenset())

    def add(self, model: str, options: frozenset[Option]) -> frozenset[Option]:
        """Adds ``options``; returns those that are new."""
        known = self.of(model)
        self._by_model[model] = known | options
        return options - known


def named_option(request: ModelRequest, error: str) -> Option | None:
    """The option of ``request`` that the service has rejected with the text ``error``."""
    if _IN_MESSAGES.search(error) and "ttl" not in error:
        return None  # a block of the conversation
    return next((one for one, words in _WORDS.items() if _USED[one](request) and words.search(error)), None)


def without(request: ModelRequest, options: frozenset[Option]) -> ModelRequest:
    """``request`` without ``options``."""
    return replace(
        request,
        thinking=None if Option.THINKING in options else request.thinking,
        effort=None if Option.EFFORT in options else request.effort,
        temperature=None if Option.TEMPERATURE in options else request.temperature,
        tools=() if Option.TOOLS in options else request.tools,
        long_cache_of_head=request.long_cache_of_head and Option.LONG_CACHE not in options,
        long_cache_of_messages=request.long_cache_of_messages and Option.LONG_CACHE not in options,
    )
