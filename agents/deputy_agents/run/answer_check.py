"""Checks the file references in answers of agents."""

from functools import partial

from deputy_agents.editor.references import CheckedReferences, check
from deputy_agents.permission.decide import allows
from deputy_agents.run.agent import Agent
from deputy_agents.run.host import Host


async def check_references(text: str, agent: Agent, host: Host) -> CheckedReferences:
    """Check every file reference in ``text``, an answer of ``agent``. Files that the agent may not read without asking
    are not read."""
    return await check(text, host.workspace, agent.cwd, partial(allows, host.policy(agent)))
