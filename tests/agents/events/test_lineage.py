"""Rewinds hide what was gone back over, and show it again when the session goes forward."""

from deputy_agents.domain import event as ev
from deputy_agents.domain.outcome import AgentStatus
from deputy_agents.events import saved_view
from deputy_agents.events.view import View
from tests.support.stored_sessions import CHILD, PRIMARY


def said(text: str) -> ev.MessageAdded:
    return ev.MessageAdded(text, "user", text)


def rewound(checkpoint_id: str, *, conversation: bool = True) -> ev.SessionRewound:
    return ev.SessionRewound(checkpoint_id, "t", files=True, conversation=conversation)


def folded(*bodies: ev.Durable) -> View:
    view = View()
    for seq, body in enumerate(bodies, 1):
        agent_id = "c" if isinstance(body, ev.AgentStarted) and body.info is CHILD else "p"
        view.apply(ev.Event("s", float(seq), body, agent_id, 1, seq, seq))
    return view


BEGIN = (
    ev.AgentStarted(PRIMARY, AgentStatus.IDLE),  # 1
    ev.CheckpointCreated("one", "t1"),
    said("first"),  # 3
    ev.CheckpointCreated("two", "t2"),
    said("second"),  # 5
    ev.AgentStarted(CHILD, AgentStatus.RUNNING),  # 6
    ev.CheckpointCreated("left", "t2"),  # 7
)


def shown(view: View) -> list[int]:
    return view.transcripts.entries["p"]


def test_a_rewind_of_the_conversation_hides_messages_and_agents_since_the_checkpoint() -> None:
    view = folded(*BEGIN, rewound("two"), said("other second"))
    assert shown(view) == [3, 9]
    assert [node.info.agent_id for node in view.tree()] == ["p"]
    assert view.status().pending == view.status().running == view.status().finished == 0


def test_a_rewind_of_files_alone_hides_nothing() -> None:
    view = folded(*BEGIN, rewound("two", conversation=False))
    assert shown(view) == [3, 5, 6]
    assert len(view.tree()) == 2


def test_the_state_that_was_left_comes_back_and_hides_what_came_instead() -> None:
    view = folded(*BEGIN, rewound("two"), said("other"), ev.CheckpointCreated("left too", "t3"), rewound("left"))
    assert shown(view) == [3, 5, 6]
    assert len(view.tree()) == 2
    again = folded(
        *(*BEGIN, rewound("two"), said("other"), ev.CheckpointCreated("left too", "t3"), rewound("left")),
        *(ev.CheckpointCreated("left last", "t4"), rewound("left too"), said("more")),
    )
    assert shown(again) == [3, 9, 14]


def test_a_checkpoint_that_is_not_known_hides_nothing() -> None:
    assert shown(folded(*BEGIN, rewound("gone"))) == [3, 5, 6]


def test_a_saved_view_keeps_what_is_hidden() -> None:
    view = folded(*BEGIN, rewound("two"), said("other"))
    made = saved_view.saved(view, "code")
    view.apply(ev.Event("s", 10.0, ev.CheckpointCreated("left too", "t3"), "p", 1, 10, 10))
    assert "left too" not in str(made.facts), "it does not change any more"
    assert view.lineage.is_hidden(5)
