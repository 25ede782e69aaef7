"""The tools with which a child reports its result: ``submit_result`` and ``submit_error``.

The state machine ends the run on a valid report, so calls of these tools are validated but not executed.
"""

from typing import Annotated, NoReturn, TypeVar

from pydantic import Field

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import ToolKind
from deputy_agents.domain.rule import AccessRequest, Action
from deputy_agents.tool.args import Args, ArgsTool
from deputy_agents.tool.base import Prepared, ToolContext

Text = Annotated[str, Field(min_length=1, pattern=r"\S")]


class SubmitResultArgs(Args):
    result: Annotated[Text, Field(description="The complete final answer. The parent sees nothing else.")]


class SubmitErrorArgs(Args):
    error: Annotated[Text, Field(description="Why the task cannot be done, and what you tried.")]


R = TypeVar("R", SubmitResultArgs, SubmitErrorArgs)


class _Report(ArgsTool[R]):
    async def prepare(self, args: R, context: ToolContext) -> Prepared:
        del args, context
        return Prepared("", (AccessRequest(self.name, Action.SESSION, ""),))

    async def run(self, args: R, context: ToolContext) -> NoReturn:
        del args, context
        raise ToolError("Only one report per response has an effect.")


class SubmitResult(_Report[SubmitResultArgs]):
    def __init__(self) -> None:
        super().__init__(
            "submit_result",
            ToolKind.OTHER,
            SubmitResultArgs,
            "Submit the final answer to your task and end. Answering in plain text has the same effect.",
        )


class SubmitError(_Report[SubmitErrorArgs]):
    def __init__(self) -> None:
        super().__init__(
            "submit_error",
            ToolKind.OTHER,
            SubmitErrorArgs,
            "Report that the task cannot be done, and end.",
        )
