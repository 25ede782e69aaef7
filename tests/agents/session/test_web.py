"""Agents that only read may read the web, and ask about every new site."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deputy_agents.domain.errors import ModelError, ModelErrorKind
from deputy_agents.domain.message import Message, Reply, Source, StopReason, Text, Usage
from deputy_agents.domain.preview import TextPreview
from deputy_agents.domain.settings import Settings, WebSettings
from deputy_agents.model.scripted import call, say
from deputy_agents.ports.permission import Selected
from tests.support.core import DENY, Cast, Person, core, delegate, results, task_of
from tests.support.web_server import Page, Site, site

pytestmark = pytest.mark.asyncio

PRIVATE = Settings(web=WebSettings(allow_private=True))


@pytest.fixture
def pages() -> Iterator[Site]:
    with site({"/a": Page(b"first page", "text/plain"), "/b": Page(b"second page", "text/plain")}) as opened:
        yield opened


def reading(pages: Site) -> Cast:
    """A read-only child that reads two pages of one site."""
    lines = [call("web_fetch", url=pages.url("/a")), call("web_fetch", url=pages.url("/b")), say("read")]
    return Cast([delegate("read them"), say("ok")], {"read them": lines})


@pytest.mark.requirement("C8")
async def test_a_child_that_only_reads_asks_once_about_a_site_when_the_answer_lasts(
    workspace: Path, pages: Site
) -> None:
    person = Person(Selected("allow_always"))
    async with core(workspace, reading(pages), person, settings=PRIVATE) as c:
        await c.turn()
        (permission_request,) = person.asked
        assert permission_request.title == f"[read them] web_fetch({pages.url('/a')})"
        assert f"Always allow: web_fetch(127.0.0.1:{pages.port})" in [
            option.name for option in permission_request.options
        ]
        assert [path for path, _ in pages.requests] == ["/a", "/b"]
        assert "second page" in results(c.requests("read them")[-1])[0].content


async def test_a_site_that_the_user_denies_is_not_asked_for_anything(workspace: Path, pages: Site) -> None:
    async with core(workspace, reading(pages), Person(DENY), settings=PRIVATE) as c:
        await c.turn()
        assert pages.requests == []


async def test_this_machine_is_not_read_though_the_user_says_yes_unless_the_setting_does_too(
    workspace: Path, pages: Site
) -> None:
    async with core(workspace, reading(pages), Person()) as c:
        await c.turn()
        assert "web.allowPrivate" in results(c.requests("read them")[-1])[0].content
        assert pages.requests == []


async def test_where_the_web_is_off_nobody_is_offered_it(workspace: Path) -> None:
    settings = replace(PRIVATE, web=WebSettings(enabled=False))
    async with core(workspace, Cast([say("ok"), say("ok")]), settings=settings) as c:
        await c.turn()
        c.session.settings.client.apply(Settings())
        await c.turn()
        c.session.settings.client.apply(Settings(web=WebSettings(search=True)))
        await c.turn()
        off, on, searching = ({tool.name for tool in request.tools} for request in c.requests())
        assert (on - off, searching - on) == ({"web_fetch"}, {"web_search"})


@pytest.mark.requirement("C8")
async def test_a_search_asks_goes_to_the_provider_and_its_use_is_shown(workspace: Path) -> None:
    found = Reply(
        Message("assistant", (Text("Two fit: "), Text("a and b."))),
        StopReason.END_TURN,
        Usage(input_tokens=1000, output_tokens=50),
        (Source("https://a.example/1", "Page A"), Source("https://b.example/2", "Page \x1b[1mB")),
        searches=2,
    )
    person = Person()
    lines = Cast(
        [delegate("look"), say("ok")],
        {"look": [call("web_search", query="how to fold"), found, say("found")], "how to fold": []},
    )
    async with core(workspace, lines, person, settings=Settings(web=WebSettings(search=True))) as c:
        await c.turn()
        (permission_request,) = person.asked
        assert permission_request.title == "[look] web_search(how to fold)"
        assert permission_request.preview == TextPreview("Search the web for: how to fold")
        assert results(c.requests("look")[-1])[0].content == (
            "Two fit: a and b.\n\nSources:\n- Page A: https://a.example/1\n"
            "- Page \\u{1b}[1mB: https://b.example/2\n\n[2 searches]"
        )
        (search,) = [request for request in c.model.requests if request.search]
        assert (search.tools, task_of(search)) == ((), "how to fold")
        assert c.child("look").usage.input_tokens >= 1000


async def test_a_search_that_fails_is_told_to_the_model(workspace: Path) -> None:
    failing = ModelError("The service has no such tool.", ModelErrorKind.INVALID_REQUEST)
    lines = Cast([call("web_search", query="how to fold"), failing, say("ok")])
    async with core(workspace, lines, Person(), settings=Settings(web=WebSettings(search=True))) as c:
        await c.turn()
        (result,) = results(c.requests()[-1])
        assert (result.content, result.is_error) == ("The service has no such tool.", True)
