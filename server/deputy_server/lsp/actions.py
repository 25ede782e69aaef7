"""Handlers of code actions and code lenses.

In a workspace file they start prompts about the selection and about diagnostics, and dismiss the findings of a review.
In a transcript they do what can be done with the agent or the question that stands there.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from deputy_agents.text import cut, visible
from deputy_protocol import methods
from deputy_protocol.base import to_wire
from deputy_protocol.command import FindingArgument, PromptArgument
from deputy_protocol.place import Range
from deputy_protocol.validate import parse
from deputy_server.lsp.connection import Connection
from deputy_server.lsp.documents import Document
from deputy_server.lsp.marks import Mark, marks
from deputy_server.lsp.text_params import CodeActionContext, CodeActionParams, Diagnostic, DocumentParams
from deputy_server.rpc.json import JsonObject

MOST_DIAGNOSTICS = 5
"""Diagnostics of one place that are offered to be fixed."""

ASK, FIX = "refactor", "quickfix"
"""Kinds of code actions: editors group and filter by them."""

_AUTOMATIC = 2
_TITLE = 60

_QUESTIONS = (
    ("explain this", "Explain this code: what it does, why it is as it is, and what to look out for."),
    ("review this", "Review this code with code_review, and report what it finds."),
)
"""What can be asked about a selection: a title, and the prompt."""


@dataclass(frozen=True, slots=True)
class Action:
    kind: str
    title: str
    command: str
    argument: JsonObject


async def code_actions(connection: Connection, raw: object) -> object:
    params = parse(CodeActionParams, raw)
    document = connection.documents.named(params.text_document.uri)
    first, last = params.range.start.line, params.range.end.line
    if document is not None and connection.transcript_at(document) is not None:
        actions = _of_marks([mark for mark in _marks(connection, document) if first <= mark.line <= last])
    else:
        actions = _of_file(connection, params, document)
    return [_told(connection, action) for action in actions if _is_wanted(action.kind, params.context)]


async def code_lenses(connection: Connection, raw: object) -> object:
    document = connection.documents.named(parse(DocumentParams, raw).text_document.uri)
    found = [] if document is None else _marks(connection, document)
    return [{"range": _line(mark.line), "command": _command(mark.title, mark.command, mark.argument)} for mark in found]


def _marks(connection: Connection, document: Document) -> list[Mark]:
    if (shown := connection.transcript_at(document)) is None:
        return []
    return list(marks(document.source, shown.reading, shown.agent_id, shown.names))


def _of_marks(found: list[Mark]) -> Iterator[Action]:
    for mark in found:
        yield Action(FIX, f"{mark.title}: {mark.subject}", mark.command, mark.argument)


def _of_file(connection: Connection, params: CodeActionParams, document: Document | None) -> Iterator[Action]:
    # A client that takes events shows sessions itself, and starts them itself.
    if not connection.client.events:
        uri = params.text_document.uri
        for diagnostic in params.context.diagnostics[:MOST_DIAGNOSTICS]:
            title = f'fix "{cut(visible(diagnostic.message), _TITLE)}"'
            yield _prompt(FIX, title, _problem(diagnostic), uri, diagnostic.range)
        # Editors ask at every move of the cursor, too: nobody wants to be offered help with every word.
        if params.range.start != params.range.end or params.context.trigger_kind != _AUTOMATIC:
            for title, text in _QUESTIONS:
                yield _prompt(ASK, title, text, uri, params.range)
    if document is not None and document.real_path is not None:
        first, last = params.range.start.line, params.range.end.line
        for shown in connection.findings.at(document.real_path, first, last):
            title = f'Deputy: dismiss "{cut(visible(shown.finding.text), _TITLE)}"'
            argument = to_wire(FindingArgument(finding_id=shown.finding_id))
            yield Action(FIX, title, methods.DISMISS_FINDING_COMMAND.name, argument)


def _prompt(kind: str, title: str, text: str, uri: str, span: Range) -> Action:
    argument = PromptArgument(text=text, uri=uri, range=span, queue=True)
    return Action(kind, f"Deputy: {title}", methods.PROMPT_COMMAND.name, to_wire(argument))


def _problem(diagnostic: Diagnostic) -> str:
    origin = " ".join(str(part) for part in (diagnostic.source, diagnostic.code) if part is not None)
    return f"Fix this problem: {diagnostic.message}" + (f" ({origin})" if origin else "")


def _is_wanted(kind: str, context: CodeActionContext) -> bool:
    """Kinds are a hierarchy: who wants some wants what is below them."""
    return context.only is None or any(wanted in ("", kind) for wanted in context.only)


def _told(connection: Connection, action: Action) -> JsonObject:
    """As a code action, or as the bare command where the client knows no other."""
    command = _command(action.title, action.command, action.argument)
    return (
        {"title": action.title, "kind": action.kind, "command": command}
        if connection.client.action_literals
        else command
    )


def _command(title: str, command: str, argument: JsonObject) -> JsonObject:
    return {"title": title, "command": command, "arguments": [argument]}


def _line(number: int) -> JsonObject:
    place = {"line": number, "character": 0}
    return {"start": place, "end": place}
