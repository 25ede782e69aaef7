"""Sources of the key, and errors without one."""

import sys
from collections.abc import Callable, Iterator

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends.fail import Keyring as NoKeyring
from keyring.errors import KeyringLocked

from deputy_agents.domain.errors import ModelError, ModelErrorKind
from deputy_agents.domain.message import Message, Reply, Text
from deputy_agents.model import credential
from deputy_agents.model.anthropic import AnthropicModel
from deputy_agents.model.credential import resolve_credential
from deputy_agents.model.endpoint import ApiSettings, Endpoint, endpoint_of
from deputy_agents.ports.model import ModelRequest
from tests.support.messages_api import messages_api
from tests.support.model_replies import Json, Play, failing, say

REQUEST = ModelRequest("m", "", (Message("user", (Text("hi"),)),))


def printing(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


async def rejected(endpoint: Endpoint) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await resolve_credential(endpoint)
    return caught.value


@pytest.mark.asyncio
async def test_a_key_command_precedes_the_environment_and_its_output_is_stripped() -> None:
    api = ApiSettings(key_command=printing("print('  sk-printed  ')"))
    endpoint = await resolve_credential(endpoint_of({"ANTHROPIC_API_KEY": "sk-env", "ANTHROPIC_AUTH_TOKEN": "t"}, api))
    assert endpoint.credential == "sk-printed"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (printing("import sys; print('sk-leaked'); print('sk-leaked', file=sys.stderr); sys.exit(3)"), "exit code 3"),
        (printing("pass"), "printed nothing"),
        (("no-such-program-anywhere",), "cannot be started"),
        (("",), "cannot be started"),
    ],
)
async def test_a_key_command_without_a_key_is_reported_without_its_output(
    command: tuple[str, ...], expected: str
) -> None:
    error = await rejected(Endpoint(key_command=command))
    assert error.kind is ModelErrorKind.NOT_CONFIGURED
    assert expected in str(error)
    assert "api.keyCommand" in error.action
    assert "sk-leaked" not in f"{error} {error.action} {error.__cause__}"


@pytest.mark.asyncio
async def test_a_key_command_that_hangs_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credential, "COMMAND_TIMEOUT", 0.1)
    assert "did not finish" in str(
        await rejected(Endpoint(key_command=printing("import threading; threading.Event().wait()")))
    )


class FakeKeyring(KeyringBackend):
    """A backend for the real `keyring` package."""

    priority = 1

    def __init__(self, answer: Callable[[str, str], str | None]) -> None:
        super().__init__()
        self._answer = answer

    def get_password(self, service: str, username: str) -> str | None:
        return self._answer(service, username)

    def set_password(self, service: str, username: str, password: str) -> None:
        raise AssertionError("Deputy writes no keys")


@pytest.fixture
def set_keyring() -> Iterator[Callable[[Callable[[str, str], str | None]], None]]:
    before = keyring.get_keyring()
    yield lambda answer: keyring.set_keyring(FakeKeyring(answer))
    keyring.set_keyring(before)


@pytest.mark.asyncio
async def test_the_keyring_entry_of_deputy_precedes_the_environment(
    set_keyring: Callable[[Callable[[str, str], str | None]], None],
) -> None:
    set_keyring(lambda service, account: f"sk-{service}-{account}\n")
    assert (await resolve_credential(Endpoint(key="env", keyring=True))).credential == "sk-deputy-api-key"


@pytest.mark.asyncio
async def test_a_keyring_that_fails_or_has_no_entry_is_reported_with_an_action(
    set_keyring: Callable[[Callable[[str, str], str | None]], None],
) -> None:
    def locked(service: str, account: str) -> str:
        raise KeyringLocked("secret detail")

    for answer, expected in ((lambda *_: None, "has no key"), (locked, "KeyringLocked")):
        set_keyring(answer)
        error = await rejected(Endpoint(keyring=True))
        assert expected in str(error)
        assert "keyring set deputy api-key" in error.action
        assert "secret detail" not in str(error)


@pytest.mark.asyncio
async def test_a_machine_without_a_keyring_is_reported() -> None:
    """The package is installed but has no backend, as on a server."""
    before = keyring.get_keyring()
    keyring.set_keyring(NoKeyring())
    try:
        error = await rejected(Endpoint(keyring=True))
    finally:
        keyring.set_keyring(before)
    assert error.kind is ModelErrorKind.NOT_CONFIGURED
    assert "NoKeyringError" in str(error)


@pytest.mark.asyncio
async def test_a_missing_keyring_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert "not installed" in str(await rejected(Endpoint(keyring=True)))


@pytest.mark.asyncio
async def test_an_expired_key_is_read_again_and_a_wrong_one_is_not_retried(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    counter = tmp_path_factory.mktemp("keys") / "count"
    code = f"p={str(counter)!r}\nopen(p,'a').write('x')\nprint('key-%d' % len(open(p).read()))"

    def script(body: Json, n: int) -> Play:
        return say("ok") if n == 0 or n == 2 else failing(401, "authentication_error")

    async def ask(model: AnthropicModel) -> Reply:
        events = [event async for event in model.stream(REQUEST)]
        assert isinstance(events[-1], Reply)
        return events[-1]

    async with messages_api(script) as api:
        model = AnthropicModel(endpoint_of({}, ApiSettings(api.url, key_command=printing(code))))
        await ask(model)
        with pytest.raises(ModelError) as expired:
            await ask(model)
        await ask(model)
        with pytest.raises(ModelError):
            await ask(model)
        with pytest.raises(ModelError) as wrong:
            await ask(model)
        await model.aclose()
    assert (expired.value.retryable, wrong.value.retryable) == (True, False)
    used = [received.headers["authorization"] for received in api.requests]
    assert used == ["Bearer key-1", "Bearer key-1", "Bearer key-2", "Bearer key-2", "Bearer key-3"]


@pytest.mark.asyncio
async def test_a_key_changed_in_the_keyring_is_used_by_the_next_attempt(
    set_keyring: Callable[[Callable[[str, str], str | None]], None],
) -> None:
    keys = ["key-old", "key-new"]
    set_keyring(lambda *_: keys.pop(0))
    async with messages_api(lambda body, n: failing(401, "authentication_error") if n == 0 else say("ok")) as api:
        model = AnthropicModel(endpoint_of({}, ApiSettings(api.url, keyring=True)))
        with pytest.raises(ModelError):
            _ = [event async for event in model.stream(REQUEST)]
        _ = [event async for event in model.stream(REQUEST)]
        await model.aclose()
    assert [received.headers["authorization"] for received in api.requests] == ["Bearer key-old", "Bearer key-new"]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("api", "expected"),
    [
        (ApiSettings("not a url"), "baseUrl"),
        (ApiSettings("ftp://127.0.0.1"), "baseUrl"),
        (ApiSettings("http://"), "baseUrl"),
        (ApiSettings("http://[::bad"), "baseUrl"),
        (ApiSettings("http://host:99999"), "baseUrl"),
        (ApiSettings("//me:s3cret@host"), "baseUrl"),
        (ApiSettings(proxy="me:s3cret@host"), "api.proxy"),
        (ApiSettings(proxy="ftp://me:s3cret@host"), "api.proxy"),
        (ApiSettings(headers=(("x team", "s3cret"),)), "x team"),
        (ApiSettings(headers=(("x-team", "s3cret\nx-admin: yes"),)), "x-team"),
        (ApiSettings(headers=(("x-team", "s3crét"),)), "x-team"),
    ],
)
async def test_an_invalid_setting_is_named_before_anything_is_sent_without_its_secrets(
    api: ApiSettings, expected: str
) -> None:
    error = await rejected(endpoint_of({"ANTHROPIC_API_KEY": "k"}, api))
    assert error.kind is ModelErrorKind.NOT_CONFIGURED
    assert expected in f"{error} {error.action}"
    assert "s3cr" not in f"{error} {error.action}"


def test_a_password_in_an_address_is_not_shown() -> None:
    endpoint = Endpoint("https://me:s3cret@host/api", proxy="http://you:hidden@proxy:1")
    assert endpoint.shown_url == "https://host/api"
    assert endpoint.safe("s3cret and hidden") == "*** and ***"


@pytest.mark.asyncio
async def test_headers_are_sent_and_never_shown() -> None:
    api_settings = ApiSettings(headers=(("x-team", "sk-header"),), key_command=())
    async with messages_api(lambda *_: failing(401, "authentication_error", "no sk-header")) as api:
        endpoint = endpoint_of({"ANTHROPIC_API_KEY": "sk-key", "ANTHROPIC_BASE_URL": api.url}, api_settings)
        model = AnthropicModel(endpoint)
        with pytest.raises(ModelError):
            _ = [event async for event in model.stream(REQUEST)]
        await model.aclose()
    assert api.requests[0].headers["x-team"] == "sk-header"
    assert "sk-header" not in f"{endpoint!r} {api_settings!r}"
    assert endpoint.safe("it expected sk-header") == "it expected ***"


@pytest.mark.asyncio
async def test_a_proxy_is_used_only_for_other_machines() -> None:
    """The loopback server acts as the proxy: it gets a request for a host that does not exist."""
    async with messages_api(lambda *_: say("through the proxy")) as proxy:
        environ = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "http://models.invalid"}
        model = AnthropicModel(endpoint_of(environ, ApiSettings(proxy=proxy.url)))
        events = [event async for event in model.stream(REQUEST)]
        await model.aclose()
        assert isinstance(events[-1], Reply)
        assert proxy.requests[0].path == "http://models.invalid/v1/messages"
        async with messages_api(lambda *_: say("directly")) as near:
            model = AnthropicModel(endpoint_of(environ, ApiSettings(near.url, proxy=proxy.url)))
            _ = [event async for event in model.stream(REQUEST)]
            await model.aclose()
            assert (len(near.requests), len(proxy.requests)) == (1, 1)


@pytest.mark.asyncio
@pytest.mark.parametrize("headers", [(), (("authorization", "Basic bWU="),)])
async def test_service_on_this_machine_gets_no_key_if_none_is_set(headers: tuple[tuple[str, str], ...]) -> None:
    async with messages_api(lambda *_: say("without a key")) as api:
        api.needs_key = False
        model = AnthropicModel(endpoint_of({}, ApiSettings(api.url, headers=headers)))
        events = [event async for event in model.stream(REQUEST)]
        await model.aclose()
    assert isinstance(events[-1], Reply)
    sent = api.requests[0].headers
    assert "x-api-key" not in sent
    assert sent.get("authorization") == dict(headers).get("authorization")
    assert api.violations == []


@pytest.mark.requirement("L4")
@pytest.mark.asyncio
async def test_error_names_the_address_and_ends_before_the_action() -> None:
    async with messages_api(lambda *_: failing(401, "authentication_error", "invalid x-api-key")) as api:
        model = AnthropicModel(endpoint_of({"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": api.url}))
        with pytest.raises(ModelError) as caught:
            _ = [event async for event in model.stream(REQUEST)]
        await model.aclose()
    assert str(caught.value) == f"The model service rejected the key: invalid x-api-key ({api.url})."
