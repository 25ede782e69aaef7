"""Libraries that are not installed with Deputy, because only some providers need them."""

from dataclasses import dataclass

from deputy_agents.domain.errors import ModelError, ModelErrorKind


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra of the package ``deputy-ls``, who needs it, and a module that it installs."""

    name: str
    provider: str
    module: str


OPENAI = Extra("openai", "models of OpenAI and of services with its API", "openai")
BEDROCK = Extra("bedrock", "models on Amazon Bedrock and Claude on AWS", "boto3")
VERTEX = Extra("vertex", "models on Google Vertex AI", "google.auth")


def missing_extra(extra: Extra) -> ModelError:
    """The error for libraries that are not installed."""
    return ModelError(
        f"The libraries for {extra.provider} are not installed (no module {extra.module!r}).",
        ModelErrorKind.NOT_CONFIGURED,
        action=f"Install `deputy-ls[{extra.name}]`: `uv tool install 'deputy-ls[{extra.name}]'`, or "
        f"`pip install 'deputy-ls[{extra.name}]'` in Deputy's environment, and restart Deputy.",
    )
