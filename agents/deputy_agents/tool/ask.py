"""``ask_user``: a question of an agent to the user."""

from typing import Annotated

from pydantic import Field, model_validator

from deputy_agents.domain.event import ResolvedBy, ToolKind
from deputy_agents.domain.rule import AccessRequest, Action
from deputy_agents.domain.user_input import FieldOption, FieldType, InputAction, InputField, InputForm
from deputy_agents.permission.inbox import InputOutcome
from deputy_agents.text import make_label
from deputy_agents.tool.args import Args, ArgsTool
from deputy_agents.tool.base import Prepared, ToolContext, ToolOutput

ASK_USER = "ask_user"
MAX_QUESTION = 4000
MAX_OPTIONS = 20
MAX_OPTION = 200

DECLINED = "Declined by the user."
UNREACHABLE = "No client can ask the user."
_WITHDRAWN = "The question was withdrawn."
_ANSWER = "answer"
_NonBlank = Field(min_length=1, pattern=r"\S")


class AskUserArgs(Args):
    question: Annotated[str, _NonBlank, Field(max_length=MAX_QUESTION, description="What you need to know.")]
    options: Annotated[
        list[Annotated[str, _NonBlank, Field(max_length=MAX_OPTION)]],
        Field(max_length=MAX_OPTIONS, description="Possible answers; the user chooses one. Omit them to get a text."),
    ] = Field(default_factory=list)
    multiple: Annotated[bool, Field(description="Whether the user can choose several options.")] = False

    @model_validator(mode="after")
    def _check_options(self) -> "AskUserArgs":
        if self.multiple and not self.options:
            raise ValueError("multiple needs options")
        if len(set(self.options)) < len(self.options):
            raise ValueError("options must not contain an answer twice")
        return self


class AskUser(ArgsTool[AskUserArgs]):
    """Asks the user and waits for the answer, without a time limit."""

    def __init__(self) -> None:
        super().__init__(
            ASK_USER,
            ToolKind.OTHER,
            AskUserArgs,
            "Ask the user a question and wait for the answer. Use it only for what you cannot find out or decide "
            "yourself. Approval of tool calls needs no question.",
        )

    async def prepare(self, args: AskUserArgs, context: ToolContext) -> Prepared:
        del context
        about = make_label(args.question)
        return Prepared(about, (AccessRequest(ASK_USER, Action.SESSION, about),))

    async def run(self, args: AskUserArgs, context: ToolContext) -> ToolOutput:
        form = InputForm(args.question, (_field(args),), about=make_label(args.question))
        outcome = await context.ask_input(form)
        if outcome.values is None:
            return ToolOutput(_unanswered(outcome), is_error=True)
        answer = outcome.values[_ANSWER]
        return ToolOutput("\n".join(answer) if isinstance(answer, tuple) else str(answer))


def _field(args: AskUserArgs) -> InputField:
    if not args.options:
        return InputField(_ANSWER, FieldType.STRING)
    kind = FieldType.CHOICES if args.multiple else FieldType.CHOICE
    options = tuple(FieldOption(option, option) for option in args.options)
    return InputField(_ANSWER, kind, options=options, shortest=1 if args.multiple else None)


def _unanswered(outcome: InputOutcome) -> str:
    """A question that was closed counts as declined: the user has seen it."""
    if outcome.by is ResolvedBy.UNREACHABLE:
        return UNREACHABLE
    answered = outcome.action is InputAction.DECLINED or outcome.by is ResolvedBy.DISMISSED
    return DECLINED if answered else _WITHDRAWN
