"""The clients of a process. What a client's settings allow holds for the sessions that it has opened, and no others."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from deputy_agents.domain.settings import AgentSettings, Settings
from deputy_agents.ports.model import Model, ModelFactory
from deputy_agents.run.slots import Slots


class ClientSettings:
    """The settings of one client, and the models that they lead to. They may change, so read them at the moment of use.

    ``grace`` is how long, in seconds, a permission request waits for a client that can ask the user; 0 where clients
    cannot reconnect.
    """

    def __init__(
        self, settings: Settings, models: ModelFactory, grace: float, on_change: Callable[["ClientSettings"], None]
    ) -> None:
        self.current = settings
        self.models = models
        self.grace = grace
        self.connected = True
        """When it is not, its sessions keep its settings until another client takes them over."""
        self._on_change = on_change

    def apply(self, settings: Settings, models: ModelFactory | None = None, grace: float | None = None) -> None:
        """Apply changed settings, from the next decision, request or spawn on. Open permission requests are decided
        again."""
        self.current = settings
        self.models = models or self.models
        self.grace = self.grace if grace is None else grace
        self._on_change(self)

    def disconnect(self) -> None:
        """The client is gone."""
        self.connected = False
        self._on_change(self)


@dataclass(slots=True)
class SessionSettings:
    """The settings that one session runs with: those of ``client``."""

    client: ClientSettings

    @property
    def current(self) -> Settings:
        return self.client.current

    def model(self, name: str) -> Model:
        return self.client.models(name)


class Clients:
    """The connected clients, and the limits that they share because they are limits of the process.

    ``on_change`` is called with a client whose settings have changed.
    """

    def __init__(self, slots: Slots, on_change: Callable[[ClientSettings], None]) -> None:
        self._slots = slots
        self._on_change = on_change
        self._connected: list[ClientSettings] = []

    def connect(self, settings: Settings, models: ModelFactory, grace: float = 0) -> ClientSettings:
        """Add a client. It stays until :meth:`ClientSettings.disconnect`."""
        client = ClientSettings(settings, models, grace, self._changed)
        self._connected.append(client)
        self._changed(client)
        return client

    @property
    def keep_days(self) -> int | None:
        """Days after which an unused session is deleted: the most that any client keeps them. ``None`` keeps all."""
        days = [client.current.keep_days for client in self._connected]
        return None if None in days else max(filter(None, days), default=None)

    def _changed(self, client: ClientSettings) -> None:
        self._connected = [one for one in self._connected if one.connected]
        if self._connected:
            self._slots.settings = _strictest([one.current.agents for one in self._connected])
        self._on_change(client)


def _strictest(settings: Sequence[AgentSettings]) -> AgentSettings:
    """The first, with the lowest of the limits that count all sub-agents of the process."""
    return replace(
        settings[0],
        max_parallel=min(one.max_parallel for one in settings),
        max_parallel_per_parent=min(one.max_parallel_per_parent for one in settings),
        queue=min(one.queue for one in settings),
        parallel_writers=all(one.parallel_writers for one in settings),
    )
