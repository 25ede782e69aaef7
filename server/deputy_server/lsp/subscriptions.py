"""The sessions that one client watches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio

from deputy_agents.concurrency.keyed_lock import KeyedLock
from deputy_agents.domain.event import Event
from deputy_agents.session.session import Session
from deputy_server.lsp.client import Client
from deputy_server.lsp.editor import ClientEditor
from deputy_server.lsp.feed import Feed
from deputy_server.lsp.permission_requests import LspPermissionClient
from deputy_server.lsp.progress import ProgressTokens
from deputy_server.lsp.protocol import RpcProtocol


@dataclass(frozen=True, slots=True)
class _Subscription:
    feed: Feed
    permission_client: LspPermissionClient


class Subscriptions:
    """A feed for each session that the client watches. While it is subscribed, the client is also asked the session's
    permission requests and about the code. ``on_event`` gets each event that is more than a piece of text."""

    def __init__(
        self,
        protocol: RpcProtocol,
        client: Client,
        editor: ClientEditor,
        on_event: Callable[[Session, Event], None],
    ) -> None:
        self.tokens = ProgressTokens()
        self._protocol = protocol
        self._client = client
        self._editor = editor
        self._on_event = on_event
        self._message_lock = anyio.Lock()
        """Permission requests that are shown as messages are shown one at a time, in order."""
        self._asking = KeyedLock[str]()
        """Held, by its id, while the client is asked a permission request."""
        self._by_session: dict[str, _Subscription] = {}
        self._left: dict[str, _Subscription] = {}
        """The last subscriptions to sessions that the client no longer watches. Their permission requests stay open,
        because the client can subscribe again."""

    def sessions(self) -> Sequence[Session]:
        return [subscription.feed.session for subscription in self._by_session.values()]

    def add(self, session: Session, *, after: int | None = None) -> Feed:
        """Return the client's feed of ``session``, or create one that is not started yet. A new feed begins after the
        event numbered ``after``, by default with the next event."""
        subscription = self._by_session.get(session.id)
        if subscription is not None and subscription.feed.session is not session:
            self.remove(session.id)  # the session has ended and was opened again
            subscription = None
        if subscription is None:
            feed = Feed(self._protocol, self._client, self.tokens, session, self._on_event, after=after)
            permission_client = LspPermissionClient(
                self._protocol, self._client, session.id, self._message_lock, self._asking
            )
            subscription = self._by_session[session.id] = _Subscription(feed, permission_client)
            session.inbox.attach(permission_client)
            session.host.editors.attach(self._editor)
            self._forget(session.id)
        return subscription.feed

    def remove(self, session_id: str) -> Feed | None:
        """Close and return the client's feed of a session, if there is one."""
        subscription = self._by_session.pop(session_id, None)
        if subscription is None:
            return None
        feed = subscription.feed
        feed.close()
        feed.session.inbox.pause(subscription.permission_client)
        feed.session.host.editors.detach(self._editor)
        self._forget(session_id)
        self._left[session_id] = subscription
        return feed

    def _forget(self, session_id: str) -> None:
        if (left := self._left.pop(session_id, None)) is not None:
            left.feed.session.inbox.detach(left.permission_client)

    async def flush(self, session: Session) -> None:
        """Return when the client has received everything that ``session`` has published, if it is subscribed."""
        if (subscription := self._by_session.get(session.id)) is not None:
            await subscription.feed.flush()

    def close(self) -> None:
        """Unsubscribe from everything; the client has disconnected."""
        for session_id in tuple(self._by_session):
            self.remove(session_id)
        for session_id in tuple(self._left):
            self._forget(session_id)
