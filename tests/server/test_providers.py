"""Other providers of models, from the settings that an editor sends."""

from pathlib import Path

import pytest

from tests.support.dialects import ChatApi
from tests.support.messages_api import serving as serving_model
from tests.support.model_replies import say
from tests.support.rpc import EVERYTHING, RpcFailure, serving

pytestmark = [pytest.mark.asyncio, pytest.mark.requirement("M4")]


async def test_an_editor_names_a_local_service_and_prompts_are_answered_by_it(workspace: Path) -> None:
    api = ChatApi(lambda _b, _n: say("Hello from here."))
    api.needs_key = False
    async with serving_model(api), serving() as client:
        own = {"openai": {"baseUrl": f"{api.url}/v1", "headers": {"x-team": "blue"}}}
        await client.initialize(
            workspace, EVERYTHING, initializationOptions={"model": "openai/llama", "providers": own}
        )
        session_id, _ = await client.session()
        assert (await client.prompt(session_id, "hello"))["stopReason"] == "end_turn"
        assert await client.shut_down() == 0
    assert api.bodies[0]["model"] == "llama"
    assert api.requests[0].headers["x-team"] == "blue"


@pytest.mark.parametrize(
    ("providers", "field"),
    [
        ({"gemini": {}}, "providers"),
        ({"openai": {"baseURL": "http://x"}}, "baseURL"),
        ({"openai": 7}, "providers.openai"),
    ],
)
async def test_invalid_settings_of_a_provider_are_named(
    workspace: Path, providers: dict[str, object], field: str
) -> None:
    async with serving() as client:
        with pytest.raises(RpcFailure, match=field) as failure:
            await client.initialize(workspace, EVERYTHING, initializationOptions={"providers": providers})
        assert failure.value.code == -32602
