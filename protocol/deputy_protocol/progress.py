"""Clients that support work-done progress get one token for each run of a sub-agent, created when the run starts:
`deputy/<agentId>` for the first run and `deputy/<agentId>/<run>` for later ones. Progress begins with the title
`<definition>: <label>` and `cancellable: true`. It reports `<activity> (n tool calls)` at most ten times a second, and
that the agent waits for the user while it has an open permission request. It ends with the outcome.
`window/workDoneProgress/cancel` cancels only that sub-agent.

The `workDoneToken` of a prompt shows the progress of the primary agent. A turn without one gets the token
`deputy/<agentId of the primary agent>/<turnId>`.
"""


def child_token(agent_id: str, run: int = 1) -> str:
    """The progress token of a sub-agent's run."""
    return f"deputy/{agent_id}" if run == 1 else f"deputy/{agent_id}/{run}"


def turn_token(agent_id: str, turn_id: str) -> str:
    """The progress token of a primary agent's turn that has no token from the client."""
    return f"deputy/{agent_id}/{turn_id}"
