"""Handlers of code actions and code lenses.

In a workspace file, actions start prompts about the selection and about diagnostics, and dismiss the findings of
reviews. In a transcript, they apply to the agent or the permission request at the line.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from deputy_agents.text import cut, visible
from deputy_protocol import command_table
from deputy_protocol.base import to_wire
from deputy_protocol.command import FindingArgument, PromptArgument
from deputy_protocol.place import Range
from deputy_protocol.validate import parse
from deputy_server.lsp.connection import Connection
from deputy_server.lsp.documents import Document
from deputy_server.lsp.review_marks import Mark, marks_of, reviewed_at
from deputy_server.lsp.text_params import CodeActionContext, CodeActionParams, Diagnostic, DocumentParams
from deputy_server.lsp.transcript_commands import LineCommand, line_commands
from deputy_server.rpc.json import JsonObject

MAX_DIAGNOSTICS = 5
"""Diagnostics at one place that get a code action."""

ASK, FIX = "refactor", "quickfix"
"""Kinds of code actions: editors group and filter by them."""

_AUTOMATIC = 2
"""LSP's trigger kind of requests that the user did not make."""
_MAX_TITLE = 60
"""Characters of a diagnostic or finding in the title of its action."""

_QUESTIONS = (
    ("explain this", "Explain this code: what it does, why it is as it is, and what to look out for."),
    ("review this", "Review this code with code_review, and report what it finds."),
)
"""Prompts about a selection: title and text."""


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
        found = [one for one in _line_commands(connection, document) if first <= one.line <= last]
        actions = (Action(FIX, f"{one.title}: {one.subject}", one.command, one.argument) for one in found)
    else:
        marks = [] if document is None else await _review_marks(connection, document)
        reviews = (
            Action(FIX, mark.action, mark.command, mark.argument)
            for mark in marks
            if mark.action and mark.line <= last and first <= mark.last
        )
        actions = (*reviews, *_of_file(connection, params, document))
    return [_to_lsp(connection, action) for action in actions if _is_requested(action.kind, params.context)]


async def code_lenses(connection: Connection, raw: object) -> object:
    document = connection.documents.named(parse(DocumentParams, raw).text_document.uri)
    if document is None:
        return []
    marks = [] if connection.client.review else await _review_marks(connection, document)
    commands = [
        *((one.line, _command(one.title, one.command, one.argument)) for one in _line_commands(connection, document)),
        *((mark.line, _command(mark.lens, mark.command, mark.argument)) for mark in marks if mark.lens),
    ]
    return [{"range": _line(line), "command": command} for line, command in commands]


async def _review_marks(connection: Connection, document: Document) -> list[Mark]:
    """The commands for the unreviewed hunks of a document."""
    if document.real_path is None or connection.transcript_at(document) is not None:
        return []
    found = await reviewed_at(connection.app.runtime.live(), document.real_path)
    return [mark for session, reviewed in found for mark in marks_of(session, reviewed, document.uri)]


def _line_commands(connection: Connection, document: Document) -> list[LineCommand]:
    file = connection.transcript_at(document)
    return [] if file is None else list(line_commands(document.source, file))


def _of_file(connection: Connection, params: CodeActionParams, document: Document | None) -> Iterator[Action]:
    # A client with events shows and starts sessions itself.
    if not connection.client.events:
        uri = params.text_document.uri
        for diagnostic in params.context.diagnostics[:MAX_DIAGNOSTICS]:
            title = f'fix "{cut(visible(diagnostic.message), _MAX_TITLE)}"'
            yield _prompt(FIX, title, _problem(diagnostic), uri, diagnostic.range)
        # Editors also request actions whenever the cursor moves: without a selection, only explicit requests count.
        if params.range.start != params.range.end or params.context.trigger_kind != _AUTOMATIC:
            for title, text in _QUESTIONS:
                yield _prompt(ASK, title, text, uri, params.range)
    if document is not None and document.real_path is not None:
        first, last = params.range.start.line, params.range.end.line
        for shown in connection.findings.at(document.real_path, first, last):
            title = f'Deputy: dismiss "{cut(visible(shown.finding.text), _MAX_TITLE)}"'
            argument = to_wire(FindingArgument(finding_id=shown.finding_id))
            yield Action(FIX, title, command_table.DISMISS_FINDING_COMMAND.name, argument)


def _prompt(kind: str, title: str, text: str, uri: str, span: Range) -> Action:
    argument = PromptArgument(text=text, uri=uri, range=span, queue=True)
    return Action(kind, f"Deputy: {title}", command_table.PROMPT_COMMAND.name, to_wire(argument))


def _problem(diagnostic: Diagnostic) -> str:
    origin = " ".join(str(part) for part in (diagnostic.source, diagnostic.code) if part is not None)
    return f"Fix this problem: {diagnostic.message}" + (f" ({origin})" if origin else "")


def _is_requested(kind: str, context: CodeActionContext) -> bool:
    """Whether the client requests actions of this kind. Kinds are a hierarchy; the empty kind includes all."""
    return context.only is None or any(requested in ("", kind) for requested in context.only)


def _to_lsp(connection: Connection, action: Action) -> JsonObject:
    """A code action, or a bare command for clients without action literals."""
    command = _command(action.title, action.command, action.argument)
    return (
        {"title": action.title, "kind": action.kind, "command": command}
        if connection.client.action_literals
        else command
    )


def _command(title: str, command: str, argument: JsonObject) -> JsonObject:
    return {"title": title, "command": command, "arguments": [argument]}


def _line(number: int) -> JsonObject:
    position = {"line": number, "character": 0}
    return {"start": position, "end": position}
