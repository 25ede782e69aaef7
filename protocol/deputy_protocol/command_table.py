"""The table of commands of ``workspace/executeCommand``, beside the table of methods.

Payload classes are given as functions, as in :mod:`deputy_protocol.methods`.
"""

from typing import TYPE_CHECKING, Final

import deputy_protocol as p
from deputy_protocol.contract import Command

if TYPE_CHECKING:
    from pydantic import BaseModel

PROMPT_COMMAND = Command(
    "deputy.prompt",
    lambda: p.command.PromptArgument,
    lambda: p.session.SessionNewResult,
    "Starts a turn and returns immediately. The agent's answer arrives as events, or as a message if the client "
    "does not support them.",
)
NEW_SESSION_COMMAND = Command(
    "deputy.newSession",
    lambda: p.session.SessionNewParams,
    lambda: p.session.SessionNewResult,
    "Opens a session, like `deputy/session/new`.",
)
CANCEL_AGENT_COMMAND = Command(
    "deputy.cancelAgent",
    lambda: p.command.AgentArgument,
    lambda: p.agent.CancelledResult,
    "Stops an agent, like `deputy/agent/cancel`.",
)
CANCEL_SESSION_COMMAND = Command(
    "deputy.cancelSession",
    lambda: p.session.SessionParams,
    lambda: p.agent.CancelledResult,
    "Stops a session, like `deputy/session/cancel`.",
)
LIST_AGENTS_COMMAND = Command(
    "deputy.listAgents",
    lambda: p.command.ListAgentsArgument,
    lambda: p.agent.AgentListResult,
    "Lists agents, like `deputy/agent/list`.",
)
ANSWER_PERMISSION_COMMAND = Command(
    "deputy.answerPermission",
    lambda: p.command.AnswerPermissionArgument,
    lambda: p.permission.PermissionAnswerResult,
    "Answers an open permission request with the id of an option.",
)
OPEN_TRANSCRIPT_COMMAND = Command(
    "deputy.openTranscript",
    lambda: p.command.AgentArgument,
    lambda: p.command.OpenTranscriptResult,
    "Opens the transcript of an agent as a live-updating document.",
)
REVERT_AGENT_COMMAND = Command(
    "deputy.revertAgent",
    lambda: p.command.AgentArgument,
    lambda: p.agent.AgentRevertResult,
    "Reverts the edits of an agent, like `deputy/agent/revert`.",
)
DISMISS_FINDING_COMMAND = Command(
    "deputy.dismissFinding",
    lambda: p.command.FindingArgument,
    lambda: p.command.DismissFindingResult,
    "Removes the diagnostic of a review finding.",
)
REVIEW_NEXT_COMMAND = Command(
    "deputy.review.next",
    lambda: p.command.ReviewPlaceArgument,
    lambda: p.command.ReviewPlaceResult,
    "Shows the next unreviewed hunk, in this file or another, with `window/showDocument`.",
)
REVIEW_PREVIOUS_COMMAND = Command(
    "deputy.review.previous",
    lambda: p.command.ReviewPlaceArgument,
    lambda: p.command.ReviewPlaceResult,
    "Shows the previous unreviewed hunk, in this file or another.",
)
REVIEW_KEEP_COMMAND = Command(
    "deputy.review.keep",
    lambda: p.command.ReviewHunksArgument,
    lambda: p.review.ReviewResult,
    "Keeps hunks, like `deputy/review/keep`.",
)
REVIEW_UNDO_COMMAND = Command(
    "deputy.review.undo",
    lambda: p.command.ReviewHunksArgument,
    lambda: p.review.ReviewResult,
    "Undoes hunks, like `deputy/review/undo`.",
)
REVIEW_KEEP_ALL_COMMAND = Command(
    "deputy.review.keepAll",
    lambda: p.command.ReviewAllArgument,
    lambda: p.review.ReviewResult,
    "Keeps all hunks of a session, a file, an agent or a turn.",
)
REVIEW_UNDO_ALL_COMMAND = Command(
    "deputy.review.undoAll",
    lambda: p.command.ReviewAllArgument,
    lambda: p.review.ReviewResult,
    "Undoes all hunks of a session, a file, an agent or a turn.",
)
REVIEW_LIST_COMMAND = Command(
    "deputy.review.list",
    lambda: p.command.ReviewSessionArgument,
    lambda: p.review.ReviewListResult,
    "Lists unreviewed hunks, like `deputy/review/list`, and shows them in a message.",
)

REWIND_COMMAND = Command(
    "deputy.rewind",
    lambda: p.checkpoint.SessionRewindParams,
    lambda: p.checkpoint.SessionRewindResult,
    "Goes back to a checkpoint, like `deputy/session/rewind`.",
)
FORK_COMMAND = Command(
    "deputy.fork",
    lambda: p.checkpoint.SessionForkParams,
    lambda: p.session.SessionNewResult,
    "Forks a session, like `deputy/session/fork`.",
)

COMMANDS: Final[tuple["Command[BaseModel, BaseModel]", ...]] = (
    PROMPT_COMMAND,
    NEW_SESSION_COMMAND,
    CANCEL_AGENT_COMMAND,
    CANCEL_SESSION_COMMAND,
    LIST_AGENTS_COMMAND,
    ANSWER_PERMISSION_COMMAND,
    OPEN_TRANSCRIPT_COMMAND,
    REVERT_AGENT_COMMAND,
    DISMISS_FINDING_COMMAND,
    REVIEW_NEXT_COMMAND,
    REVIEW_PREVIOUS_COMMAND,
    REVIEW_KEEP_COMMAND,
    REVIEW_UNDO_COMMAND,
    REVIEW_KEEP_ALL_COMMAND,
    REVIEW_UNDO_ALL_COMMAND,
    REVIEW_LIST_COMMAND,
    REWIND_COMMAND,
    FORK_COMMAND,
)
