"""Clients that support work-done progress get one token per run of a child: `deputy/<agentId>` for the first run and
`deputy/<agentId>/<run>` for later ones, created when the run starts. It begins with the title `<definition>: <label>`
and `cancellable: true`, reports `<activity> (n tool calls)` at most ten times a second, `waits for you` while a
question of it is open, and ends with the outcome. `window/workDoneProgress/cancel` cancels that child alone.

The `workDoneToken` of a prompt carries the primary's progress; a turn that starts without one gets the token
`deputy/<agentId of the primary>/<turnId>`.
"""


def child_token(agent_id: str, run: int = 1) -> str:
    """The progress token of a run of a child."""
    return f"deputy/{agent_id}" if run == 1 else f"deputy/{agent_id}/{run}"


def turn_token(agent_id: str, turn_id: str) -> str:
    """The progress token of a turn of the primary that the server began, or that was prompted without a token."""
    return f"deputy/{agent_id}/{turn_id}"
