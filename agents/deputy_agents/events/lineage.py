"""Which part of a session's events is gone back over: a rewind hides the events after a checkpoint, and erases none."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Mark:
    """A checkpoint: the number of its event, and the events that were hidden then, as ranges with both ends."""

    seq: int
    hidden: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True)
class Lineage:
    """The checkpoints of a session by id, and the events that are hidden now."""

    marks: dict[str, Mark] = field(default_factory=dict[str, Mark])
    hidden: tuple[tuple[int, int], ...] = ()

    def mark(self, checkpoint_id: str, seq: int) -> None:
        """Adds the checkpoint whose event has the number ``seq``."""
        self.marks[checkpoint_id] = Mark(seq, self.hidden)

    def rewind(self, checkpoint_id: str, seq: int) -> bool:
        """Goes back to a checkpoint by the event ``seq``; ``False`` if there is none."""
        mark = self.marks.get(checkpoint_id)
        if mark is not None:
            self.hidden = (*mark.hidden, (mark.seq + 1, seq - 1))
        return mark is not None

    def is_hidden(self, seq: int) -> bool:
        return any(first <= seq <= last for first, last in self.hidden)
