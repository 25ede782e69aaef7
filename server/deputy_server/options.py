"""What the command line of ``deputy serve`` asks for."""

from dataclasses import dataclass
from pathlib import Path

from deputy_agents.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Options:
    """``record`` is a new file for the model traffic; ``replay`` is one to answer from, in place of a model."""

    record: Path | None = None
    replay: Path | None = None

    def problem(self) -> str | None:
        """What keeps them from being followed, told before anything starts."""
        if self.record is not None and self.record.exists():
            return f"--record: {self.record} exists already; name a new file"
        if self.record is not None and not self.record.absolute().parent.is_dir():
            return f"--record: there is no folder {self.record.absolute().parent}"
        if self.replay is not None:
            from deputy_agents.model.recording import replay  # only for those who look for a fault

            try:
                replay(self.replay, {})
            except InvalidRequest as error:
                return f"--replay: {error}"
        return None
