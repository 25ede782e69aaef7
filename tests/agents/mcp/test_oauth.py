"""Signing in at MCP servers, against a real authorization server in another process."""

import json
import logging
import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import keyring
import pytest
from anyio import to_thread
from keyring.backend import KeyringBackend

from deputy_agents.domain.event import InputRequest, ResolvedBy
from deputy_agents.mcp import needed_sign_in
from deputy_agents.mcp.catalog import McpServerState
from deputy_agents.mcp.oauth_callback import listening
from deputy_agents.mcp.oauth_http import NotAllowed, check_address, oauth_client
from deputy_agents.mcp.oauth_login import SignInFailed, sign_in, sign_out
from deputy_agents.mcp.oauth_session import SessionAuth
from deputy_agents.mcp.sign_ins import SignIn, SignIns
from deputy_agents.model.scripted import calls, say, use
from deputy_agents.ports.permission import Accepted, Dismissed, InputAnswer
from deputy_agents.web.address import parse_url
from tests.agents.session.test_mcp_servers import prompt, starting, state, told
from tests.support.core import BOUND, Cast, Core, core
from tests.support.mcp_workspaces import ROOT, configure_mcp_servers
from tests.support.warm import completed, started

pytestmark = [pytest.mark.asyncio, pytest.mark.requirement("Q6")]

WHO = use("mcp__secure__whoami")


@dataclass(frozen=True)
class Secure:
    """The MCP server."""

    base: str

    @property
    def url(self) -> str:
        return f"{self.base}/mcp"

    def set(self, **settings: object) -> None:
        for key, value in settings.items():
            httpx2.post(f"{self.base}/test/{key}", json=value).raise_for_status()

    def log(self) -> Sequence[Mapping[str, object]]:
        return httpx2.get(f"{self.base}/test/log").json()

    def grants(self) -> list[object]:
        return [one["for"] for one in self.log() if "for" in one]


def _start(**settings: object) -> tuple[subprocess.Popen[str], Secure]:
    program = [sys.executable, "-m", "tests.support.oauth_mcp_server", json.dumps(settings)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    server = subprocess.Popen(program, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert server.stdout is not None
    return server, Secure(server.stdout.readline().strip())


def _stop(server: subprocess.Popen[str]) -> None:
    server.kill()
    server.communicate()


@pytest.fixture(scope="module")
def shared_server() -> Iterator[Secure]:
    server, secure = _start()
    yield secure
    _stop(server)


@pytest.fixture
def secure(shared_server: Secure) -> Secure:
    shared_server.set(consent="approve", expires=3600, metadata={}, resource={}, log=[])
    shared_server.set(forget=["access", "refresh", "clients"])
    return shared_server


@pytest.fixture
def sign_ins(tmp_path: Path) -> SignIns:
    return SignIns(tmp_path / "state" / "sign-ins.json")


async def get(sign_ins: SignIns, url: str) -> SignIn | None:
    return await to_thread.run_sync(sign_ins.get, url)


async def save(sign_ins: SignIns, url: str, sign_in: SignIn) -> None:
    await to_thread.run_sync(sign_ins.save, url, sign_in)


async def visit(page: str) -> None:
    """The user, who opens a page in a browser."""
    async with httpx2.AsyncClient(follow_redirects=True) as browser:
        await browser.get(page)


async def log_in(secure: Secure, sign_ins: SignIns, show: Callable[[str], object] = visit) -> SignIn:
    with anyio.fail_after(BOUND):
        assert await sign_in(secure.url, sign_ins, show)  # type: ignore[arg-type]
    found = await get(sign_ins, secure.url)
    assert found is not None
    return found


async def failure(secure: Secure, sign_ins: SignIns) -> str:
    with anyio.fail_after(BOUND), pytest.raises(SignInFailed) as raised:
        await sign_in(secure.url, sign_ins, visit)
    assert await get(sign_ins, secure.url) is None
    return str(raised.value)


@asynccontextmanager
async def session(workspace: Path, secure: Secure, sign_ins: SignIns, *lines: object) -> AsyncGenerator[Core]:
    configure_mcp_servers(workspace, secure={"url": secure.url})
    async with core(workspace, Cast([say("hello"), *lines]), starting(), sign_ins=sign_ins) as c:  # type: ignore[list-item]
        await prompt(c)
        yield c


@asynccontextmanager
async def requests_of(secure: Secure, sign_ins: SignIns) -> AsyncGenerator[tuple[httpx2.AsyncClient, list[str]]]:
    """A client of the MCP server as sessions have it, and a list that gets an entry when a sign-in is missing."""
    missing: list[str] = []
    auth = SessionAuth(secure.url, sign_ins, lambda: missing.append("missing"), lambda _: None)
    async with httpx2.AsyncClient(auth=auth) as http:
        yield http, missing


async def status(http: httpx2.AsyncClient, secure: Secure) -> int:
    """That of a request without content: 401 if the sign-in is not accepted."""
    with anyio.fail_after(BOUND):
        return (await http.post(secure.url, json={})).status_code


async def test_a_session_asks_to_sign_in_goes_on_after_it_and_shows_no_token(
    workspace: Path,
    secure: Secure,
    sign_ins: SignIns,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(needed_sign_in, "POLL", 0.01)
    caplog.set_level(logging.INFO)
    async with session(workspace, secure, sign_ins, calls([WHO]), say("done")) as c:
        await c.until(lambda: state(c) is McpServerState.NEEDS_SIGN_IN)
        (problem,) = c.session.mcp_servers.connection_problems
        assert problem.reason.endswith("it needs you to sign in. Run: deputy mcp login secure.")
        assert secure.log() == []  # nothing was registered or opened
        found = await log_in(secure, SignIns(sign_ins.path))
        await c.until(lambda: state(c) is McpServerState.READY)
        await prompt(c)
        assert "you are Ada" in told(c)
        seen = f"{c.events}{c.requests()}{caplog.text}"
        for secret in found.secrets:
            assert secret not in seen
    authorized = next(one for one in secure.log() if "authorized" in one)
    assert authorized["authorized"] == secure.url
    assert len(str(authorized["challenge"])) == 43


async def test_the_user_signs_in_from_the_session_by_two_answers(
    workspace: Path, secure: Secure, sign_ins: SignIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needed_sign_in, "POLL", 0.01)
    configure_mcp_servers(workspace, secure={"url": secure.url})
    pages: list[str | None] = []

    async def answer(request: InputRequest) -> InputAnswer:
        pages.append(request.form.url)
        if request.form.url is None:
            assert await to_thread.run_sync(secure.log) == []  # nothing is requested before
        else:
            tasks.start_soon(visit, request.form.url)
        return Accepted({})

    person = starting()
    person.fill = answer
    async with (
        anyio.create_task_group() as tasks,
        core(workspace, Cast([say("hello")]), person, sign_ins=sign_ins) as c,
    ):
        await prompt(c)
        await c.until(lambda: state(c) is McpServerState.READY)
    assert pages[0] is None
    assert str(pages[1]).startswith(f"{secure.base}/authorize?")
    assert len(pages) == 2


async def test_declining_to_sign_in_leaves_the_command(workspace: Path, secure: Secure, sign_ins: SignIns) -> None:
    configure_mcp_servers(workspace, secure={"url": secure.url})
    person = starting()
    person.fill = lambda request: Accepted({}) if request.form.url is None else Dismissed(ResolvedBy.DISMISSED)
    async with core(workspace, Cast([say("hello")]), person, sign_ins=sign_ins) as c:
        await prompt(c)
        await c.until(lambda: any("did not open" in one.reason for one in c.session.mcp_servers.connection_problems))
        assert state(c) is McpServerState.NEEDS_SIGN_IN
        (problem,) = c.session.mcp_servers.connection_problems
        assert problem.reason.endswith("Run: deputy mcp login secure.")


async def test_a_token_that_has_expired_is_renewed(secure: Secure, sign_ins: SignIns) -> None:
    before = await log_in(secure, sign_ins)
    secure.set(forget=["access"])
    await save(sign_ins, secure.url, before.model_copy(update={"expires_at": time.time() - 1}))
    async with requests_of(secure, sign_ins) as (http, missing):
        assert await status(http, secure) != 401
        assert await status(http, secure) != 401
        assert secure.grants() == ["code", "refresh"]
        assert missing == []
    after = await get(sign_ins, secure.url)
    assert after is not None
    assert after.access_token != before.access_token
    assert after.refresh_token != before.refresh_token


async def test_a_token_that_the_server_rejects_before_its_time_is_renewed(secure: Secure, sign_ins: SignIns) -> None:
    await log_in(secure, sign_ins)  # the clocks differ, or it was revoked
    secure.set(forget=["access"])
    async with requests_of(secure, sign_ins) as (http, missing):
        assert await status(http, secure) != 401
        assert (secure.grants(), missing) == (["code", "refresh"], [])


@pytest.mark.parametrize("expires_at", [1.0, 1e12])
async def test_a_sign_in_that_was_revoked_is_missing(secure: Secure, sign_ins: SignIns, expires_at: float) -> None:
    found = await log_in(secure, sign_ins)
    await save(sign_ins, secure.url, found.model_copy(update={"expires_at": expires_at}))
    secure.set(forget=["access", "refresh"])
    async with requests_of(secure, sign_ins) as (http, missing):
        assert await status(http, secure) == 401
        assert missing == ["missing"]
    after = await get(sign_ins, secure.url)
    assert after is not None
    assert (after.access_token, after.refresh_token) == ("", "")


async def test_a_running_server_whose_sign_in_ends_asks_for_another(
    workspace: Path, secure: Secure, sign_ins: SignIns
) -> None:
    await log_in(secure, sign_ins)
    async with session(workspace, secure, sign_ins, calls([WHO]), say("done")) as c:
        await c.until(lambda: state(c) is McpServerState.READY)
        secure.set(forget=["access", "refresh"])
        await prompt(c)
        assert told(c).startswith("error: ")
        await c.until(lambda: state(c) is McpServerState.NEEDS_SIGN_IN)


async def test_processes_that_renew_at_the_same_time_do_it_once(secure: Secure, sign_ins: SignIns) -> None:
    found = await log_in(secure, sign_ins)
    await save(sign_ins, secure.url, found.model_copy(update={"expires_at": 1}))
    secure.set(forget=["access"])
    codes: list[int] = []

    async def one() -> None:
        async with requests_of(secure, SignIns(sign_ins.path)) as (http, _):
            codes.append(await status(http, secure))

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(one)
    assert 401 not in codes
    assert secure.grants() == ["code", "refresh"]


async def test_a_page_with_another_state_changes_nothing(secure: Secure, sign_ins: SignIns) -> None:
    codes: list[int] = []

    async def show(page: str) -> None:
        back = parse_qs(urlsplit(page).query)["redirect_uri"][0]
        async with httpx2.AsyncClient() as attacker:
            queries = ("?code=x&state=other", "?error=access_denied", "")
            pages = [*(back + query for query in queries), back.replace("/callback", "/")]
            codes.extend([(await attacker.get(one)).status_code for one in pages])
        await visit(page)

    await log_in(secure, sign_ins, show)
    assert codes == [400, 400, 400, 404]


async def test_denied_consent_is_told(secure: Secure, sign_ins: SignIns) -> None:
    secure.set(consent="deny")
    assert await failure(secure, sign_ins) == "access was denied"


async def test_a_server_that_registers_nobody_is_told(sign_ins: SignIns) -> None:
    server, secure = await to_thread.run_sync(lambda: _start(registration=False))
    try:
        assert (await failure(secure, sign_ins)).startswith("the server does not let Deputy register.")
    finally:
        _stop(server)


async def test_a_further_sign_in_uses_the_registered_address_and_another_one_if_its_port_is_in_use(
    secure: Secure, sign_ins: SignIns
) -> None:
    first = await log_in(secure, sign_ins)
    again = await log_in(secure, sign_ins)
    assert again.client["client_id"] == first.client["client_id"]
    port = urlsplit(str(first.client["redirect_uris"][0])).port  # type: ignore[index]
    async with listening(port or 0) as other:
        assert other.port == port
        third = await log_in(secure, sign_ins)
    assert third.client["client_id"] != first.client["client_id"]


async def test_two_sign_ins_at_once_both_succeed(secure: Secure, sign_ins: SignIns) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(log_in, secure, SignIns(sign_ins.path))
    async with requests_of(secure, sign_ins) as (http, missing):
        assert await status(http, secure) != 401
        assert missing == []


@pytest.mark.parametrize(
    ("where", "changes", "reason"),
    [
        (
            "metadata",
            {"token_endpoint": "http://169.254.169.254/token"},
            "it names 169.254.169.254, without",
        ),
        ("metadata", {"token_endpoint": "https://10.0.0.1/token"}, "it names 10.0.0.1, which is"),
        ("metadata", {"authorization_endpoint": "http://example.com/a"}, "it names example.com, without encryption"),
        ("metadata", {"registration_endpoint": "https://host.internal/r"}, "it names host.internal, which is this"),
        ("metadata", {"issuer": "https://example.com/"}, "the server does not describe how to sign in"),
        (
            "resource",
            {"authorization_servers": ["https://192.168.1.1/"]},
            "it names 192.168.1.1, which is",
        ),
        ("resource", {"resource": "https://example.com/mcp"}, "the server does not describe how to sign in"),
    ],
)
async def test_metadata_that_leads_elsewhere_is_rejected(
    secure: Secure, sign_ins: SignIns, where: str, changes: Mapping[str, object], reason: str
) -> None:
    secure.set(**{where: changes})
    assert (await failure(secure, sign_ins)).startswith(reason)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/token",
        "https://127.0.0.1/token",
        "https://localhost/token",
        "https://[::1]/token",
        "http://auth.example.com/token",
        "https://user:pw@auth.example.com/",
        "file:///etc/passwd",
    ],
)
async def test_a_server_elsewhere_may_not_name_this_machine(url: str) -> None:
    with pytest.raises(NotAllowed):
        check_address(url, parse_url("https://mcp.example.com/mcp"))
    assert check_address("https://auth.example.com/token", parse_url("https://mcp.example.com/mcp"))


async def test_a_name_that_leads_into_a_private_network_is_rejected() -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["93.184.215.14", "10.0.0.1"]

    async with oauth_client("https://mcp.example.com/mcp", resolve=resolve) as http:
        with pytest.raises(NotAllowed, match=re.escape("auth.example.com, which is this machine or in a private")):
            await http.get("https://auth.example.com/.well-known/oauth-authorization-server")


async def test_the_file_is_private_and_has_no_query_of_the_address(secure: Secure, sign_ins: SignIns) -> None:
    assert sign_ins.path is not None
    await save(sign_ins, f"{secure.url}?key=hidden", SignIn(access_token="token-1"))
    assert stat.S_IMODE(sign_ins.path.stat().st_mode) == 0o600
    assert "hidden" not in sign_ins.path.read_text()
    assert "token-1" not in repr(await get(sign_ins, secure.url))


class _Keyring(KeyringBackend):
    """A keyring in memory."""

    priority = 1  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.values.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        if len(password) > 5000:
            raise OSError("too long")
        self.values[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.values[service, username]


@pytest.fixture
def own_keyring() -> Iterator[_Keyring]:
    before, own = keyring.get_keyring(), _Keyring()
    keyring.set_keyring(own)
    yield own
    keyring.set_keyring(before)


async def test_tokens_are_in_the_keyring_if_there_is_one(own_keyring: _Keyring, sign_ins: SignIns) -> None:
    url, other = "https://mcp.example.com/mcp", "https://other.example.com/mcp"
    await save(sign_ins, url, SignIn(access_token="token-1"))
    await save(sign_ins, other, SignIn(access_token="x" * 6000))  # more than it takes
    assert list(own_keyring.values) == [("deputy-mcp", url)]
    assert sign_ins.path is not None
    assert "token-1" not in sign_ins.path.read_text()
    assert [len(found.access_token) for one in (url, other) if (found := await get(sign_ins, one))] == [7, 6000]
    assert await to_thread.run_sync(sign_ins.delete, url)
    assert (own_keyring.values, await get(sign_ins, url)) == ({}, None)


async def test_signing_out_revokes_and_deletes(secure: Secure, sign_ins: SignIns) -> None:
    await log_in(secure, sign_ins)
    assert await sign_out(secure.url, sign_ins)
    assert {"revoked": True} in secure.log()
    assert await get(sign_ins, secure.url) is None
    assert not await sign_out(secure.url, sign_ins)


async def test_the_command_signs_in_and_out(workspace: Path, secure: Secure, tmp_path: Path) -> None:
    configure_mcp_servers(workspace, secure={"url": secure.url})
    own = {"DEPUTY_STATE": str(tmp_path / "own"), "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}
    env = {**os.environ, **own}

    program = ["-m", "deputy_server", "mcp"]
    login = await started([*program, "login", "secure", "--no-browser"], env, workspace)
    assert login.stderr is not None
    assert login.stdout is not None
    with anyio.fail_after(3 * BOUND):
        line = (await login.stderr.readline()).decode()
        assert line.startswith("Open this page to sign in: http://127.0.0.1:")
        await visit(line.split()[-1])
        assert (await login.stdout.read(), await login.wait()) == (b"You are signed in at secure.\n", 0)
    logout = await to_thread.run_sync(lambda: completed([*program, "logout", "secure"], env, workspace))
    assert (logout.stdout, logout.returncode) == ("You are signed out from secure.\n", 0)
