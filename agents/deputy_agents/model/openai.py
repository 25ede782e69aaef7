"""The APIs of OpenAI, Chat Completions and Responses, at any base URL, through the official SDK."""

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic_core import to_json

from deputy_agents.concurrency.off_loop import off_loop
from deputy_agents.domain.errors import ModelErrorKind
from deputy_agents.domain.message import text_of
from deputy_agents.domain.model_card import ModelCard
from deputy_agents.model.anthropic import NO_KEY
from deputy_agents.model.chat_body import Field, Param, chat_body
from deputy_agents.model.chat_reply import ChatReplyBuilder
from deputy_agents.model.endpoint import Endpoint
from deputy_agents.model.error_mapping import model_error
from deputy_agents.model.error_words import error_words
from deputy_agents.model.event_stream import DONE, read_events
from deputy_agents.model.extras import OPENAI, Extra
from deputy_agents.model.model_list import cards_of
from deputy_agents.model.reply_builder import Json, as_json, as_text
from deputy_agents.model.response_body import ResponseBody
from deputy_agents.model.responses_body import responses_body
from deputy_agents.model.responses_reply import ResponsesReplyBuilder
from deputy_agents.model.service import Builder, OpenedStream, SdkErrors, ServiceModel, shown_error
from deputy_agents.ports.model import ModelRequest

if TYPE_CHECKING:
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Omit

_OWN_HOSTS = ("api.openai.com", "openai.azure.com")
"""Hosts of OpenAI's own models."""
_REJECTIONS = {
    Field.COMPLETION_TOKENS: re.compile(r"max_completion_tokens", re.IGNORECASE),
    Field.USAGE: re.compile(r"stream_options|include_usage", re.IGNORECASE),
    Field.ENCRYPTED_REASONING: re.compile(r"encrypted|\binclude\b", re.IGNORECASE),
}
"""What an error says about a field that is not supported, or is needed in place of another."""
_NOT_FOR_TEXT = re.compile(r"embed|tts|whisper|dall-e|image|audio|realtime|moderation|transcri|sora|babbage|davinci")
"""Models of OpenAI's list that no agent can use."""


class ChatDialect:
    """A :class:`deputy_agents.model.service.Dialect`."""

    sdk = "openai"
    extra: Extra | None = OPENAI
    path = "/chat/completions"
    fields = (Field.COMPLETION_TOKENS, Field.USAGE)
    """Those that a model may reject."""

    def __init__(self, endpoint: Endpoint) -> None:
        host = urlsplit(endpoint.base_url).hostname or ""
        self._is_openai = host.endswith(_OWN_HOSTS)
        self._has_key = endpoint.has_key
        self._plain: dict[str, frozenset[Field]] = {}
        """Fields that a model has rejected, although requests may have them."""

    def build(self, endpoint: Endpoint) -> "AsyncOpenAI":
        import httpx2
        import openai

        return openai.AsyncOpenAI(
            base_url=endpoint.base_url,
            api_key=endpoint.key or NO_KEY,
            max_retries=0,
            timeout=httpx2.Timeout(endpoint.idle_timeout, connect=endpoint.connect_timeout),
            default_headers=dict(endpoint.headers),
            http_client=_http_client(endpoint),
        )

    async def open(self, client: "AsyncOpenAI", request: ModelRequest) -> AbstractAsyncContextManager[OpenedStream]:
        from openai import AsyncStream, BadRequestError

        if request.search:
            raise model_error(ModelErrorKind.INVALID_REQUEST, "web search is not available with this provider")
        size = sum(len(text_of(message.content)) for message in request.messages)
        while True:
            plain = self._plain.get(request.model, frozenset())
            content = await off_loop(size, lambda plain=plain: to_json(self.body(request, plain)))
            try:
                return await client.post(
                    self.path,
                    cast_to=object,
                    content=content,
                    options={"headers": {"Content-Type": "application/json", **self._authorization()}},
                    stream=True,
                    stream_cls=AsyncStream[object],
                )
            except BadRequestError as error:
                rejected = next((one for one in self.fields if _REJECTIONS[one].search(str(error.body))), None)
                if rejected is None or rejected in plain:
                    raise
                self._plain[request.model] = plain | {rejected}

    def body(self, request: ModelRequest, plain: frozenset[Field]) -> Param:
        """The body of a request, without the fields of ``plain``."""
        # Services of others than OpenAI have the older name, unless they reject it.
        return chat_body(request, plain if self._is_openai else plain ^ {Field.COMPLETION_TOKENS})

    async def events(self, stream: OpenedStream, body: ResponseBody, endpoint: Endpoint) -> AsyncGenerator[Json]:
        del stream
        async for event in read_events(body.aiter_bytes()):
            if event is not DONE and (error := _error_of(event)) is not None:
                raise shown_error(error_words(error), endpoint)
            yield event

    def builder(self) -> Builder:
        return ChatReplyBuilder()

    async def list_models(self, client: "AsyncOpenAI") -> Sequence[tuple[str, ModelCard]]:
        listed = await client.get("/models", cast_to=object, options={"headers": self._authorization()})
        models = cards_of(as_json(listed))
        return [one for one in models if not (self._is_openai and _NOT_FOR_TEXT.search(one[0]))]

    def _authorization(self) -> "dict[str, str | Omit]":
        """What leaves out the header for a key, if there is none."""
        from openai import Omit

        return {} if self._has_key else {"Authorization": Omit()}

    def errors(self) -> SdkErrors:
        import openai

        return SdkErrors(openai.APIStatusError, openai.APITimeoutError, openai.APIConnectionError)


class ResponsesDialect(ChatDialect):
    """The same for the Responses API."""

    path = "/responses"
    fields = (Field.ENCRYPTED_REASONING,)

    def body(self, request: ModelRequest, plain: frozenset[Field]) -> Param:
        return responses_body(request, plain)

    def builder(self) -> Builder:
        return ResponsesReplyBuilder()


def chat_model(endpoint: Endpoint) -> "ServiceModel[AsyncOpenAI]":
    """A client of the Chat Completions API."""
    return ServiceModel(endpoint, ChatDialect(endpoint))


def responses_model(endpoint: Endpoint) -> "ServiceModel[AsyncOpenAI]":
    """A client of the Responses API."""
    return ServiceModel(endpoint, ResponsesDialect(endpoint))


def _error_of(event: Json) -> object:
    """The error in an event, of any shape; ``None`` if it is none."""
    kind = as_text(event.get("type"))
    if kind == "error":
        return event.get("error") or event
    if kind == "response.failed":
        return as_json(event.get("response")).get("error") or {"message": "the response failed"}
    return event.get("error") if event.get("error") and "choices" not in event else None


def _http_client(endpoint: Endpoint) -> "DefaultAsyncHttpxClient":
    from openai import DefaultAsyncHttpxClient

    from deputy_agents.web.connect import LimitedTransport, environment_proxy

    proxy = None if endpoint.is_loopback else endpoint.proxy or environment_proxy(endpoint.base_url)
    return DefaultAsyncHttpxClient(transport=LimitedTransport(proxy, endpoint.connect_timeout), trust_env=False)
