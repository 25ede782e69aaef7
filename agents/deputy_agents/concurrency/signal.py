"""A wake-up call for every task that is waiting at the moment."""

import asyncio


class Signal:
    """Wakes all waiters at once and keeps no state.

    A task that needs a condition checks it, waits for the signal and checks again. Code that changes the condition
    calls :meth:`notify`. No notification is lost as long as there is no ``await`` between the check and the wait.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def notify(self) -> None:
        """Wakes every task in :meth:`wait`; tasks that wait later are not affected."""
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self) -> None:
        """Waits for the next :meth:`notify`."""
        await self._event.wait()
