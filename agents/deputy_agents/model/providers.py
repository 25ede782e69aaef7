"""The providers of models, as one table. The part of a model's name before the first slash names the provider; a name
without such a prefix belongs to the first one.

Each provider has an adapter: a :class:`deputy_agents.ports.model.ModelClient` that maps requests and replies, fails
only with :class:`deputy_agents.domain.errors.ModelError`, and never retries. ``error_mapping`` has the errors that
adapters share. A slash in a name that is no prefix, as in ``qwen/qwen3-coder``, is a part of the name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from deputy_agents.model import provider_endpoints as endpoints
from deputy_agents.model.anthropic import AnthropicModel
from deputy_agents.model.endpoint import ApiSettings, Endpoint, endpoint_of
from deputy_agents.ports.model import ModelClient


@dataclass(frozen=True, slots=True)
class Provider:
    """``endpoint`` finds address and credentials in settings and environment, without any wait; ``client`` makes the
    adapter for them, which loads libraries and connects only when it is used. ``lists`` says whether the service lists
    its models."""

    prefix: str
    name: str
    endpoint: Callable[[Mapping[str, str], ApiSettings | None], Endpoint]
    client: Callable[[Endpoint], ModelClient]
    lists: bool = True


# Adapters are imported when a model of them is used: most processes need one.


def _chat(endpoint: Endpoint) -> ModelClient:
    from deputy_agents.model.openai import chat_model

    return chat_model(endpoint)


def _responses(endpoint: Endpoint) -> ModelClient:
    from deputy_agents.model.openai import responses_model

    return responses_model(endpoint)


def _bedrock(endpoint: Endpoint) -> ModelClient:
    from deputy_agents.model.clouds import bedrock_model

    return bedrock_model(endpoint)


def _vertex(endpoint: Endpoint) -> ModelClient:
    from deputy_agents.model.clouds import vertex_model

    return vertex_model(endpoint)


def _foundry(endpoint: Endpoint) -> ModelClient:
    from deputy_agents.model.clouds import foundry_model

    return foundry_model(endpoint)


def _aws(endpoint: Endpoint) -> ModelClient:
    from deputy_agents.model.clouds import aws_model

    return aws_model(endpoint)


PROVIDERS: tuple[Provider, ...] = (
    Provider("anthropic", "Anthropic", endpoint_of, AnthropicModel),
    Provider("openai", "OpenAI", endpoints.openai_endpoint, _chat),
    Provider("openai-responses", "OpenAI", endpoints.openai_endpoint, _responses, lists=False),
    Provider("bedrock", "Amazon Bedrock", endpoints.bedrock_endpoint, _bedrock, lists=False),
    Provider("vertex", "Google Vertex AI", endpoints.vertex_endpoint, _vertex, lists=False),
    Provider("foundry", "Microsoft Foundry", endpoints.foundry_endpoint, _foundry, lists=False),
    Provider("aws", "Claude on AWS", endpoints.aws_endpoint, _aws, lists=False),
)
"""All providers, the default one first."""

_BY_PREFIX = {provider.prefix: provider for provider in PROVIDERS}


def provider_of(model: str) -> tuple[Provider, str]:
    """The provider of a model, and the name of the model for that provider."""
    prefix, slash, name = model.partition("/")
    provider = _BY_PREFIX.get(prefix) if slash and name else None
    return (PROVIDERS[0], model) if provider is None else (provider, name)
