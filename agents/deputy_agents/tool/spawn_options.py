"""What every delegation tool takes for each child, besides its task."""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Literal, cast

from pydantic import Field

from deputy_agents.domain.model_card import Effort
from deputy_agents.ports.model import ToolSpec
from deputy_agents.text import TITLE_LENGTH, make_label
from deputy_agents.tool.args import Args, parse_args, schema_of

_MODEL = "Model: inherit (yours, the default), small, or default (from the settings)."
_ALSO = f"{_MODEL[:-1]}; or one of these names: {{}}."


class SpawnOptions(Args):
    """``title`` names the child for the user. ``model`` and ``effort`` replace those of its definition. ``timeout`` is
    in seconds."""

    title: Annotated[
        str, Field(description=f"Name for the user that tells it from its siblings, at most {TITLE_LENGTH} characters.")
    ] = ""
    model: Annotated[str, Field(description=_MODEL)] = ""
    effort: Annotated[
        Literal["low", "medium", "high", "xhigh", "max"] | None,
        Field(description="How much work it puts into replies. Omit it for the default."),
    ] = None
    timeout: Annotated[
        float | None, Field(gt=0, strict=True, description="Limit in seconds of running time. Omit it for the default.")
    ] = None

    def label(self, source: str) -> str:
        """The label of the child: its title, else the beginning of ``source``."""
        return make_label(self.title, TITLE_LENGTH) or make_label(source)

    @property
    def chosen_effort(self) -> Effort | None:
        return None if self.effort is None else Effort(self.effort)


def option_fields(without: Collection[str] = ()) -> Mapping[str, object]:
    """The JSON Schemas of the options, by name, except those in ``without``."""
    fields = cast("Mapping[str, object]", schema_of(SpawnOptions)["properties"])
    return {name: field for name, field in fields.items() if name not in without}


def parse_options(input: Mapping[str, object]) -> SpawnOptions:
    """Validate options.

    Raises:
        ToolError: one is invalid; the message names it.
    """
    return parse_args(SpawnOptions, input)


def with_models(spec: ToolSpec, models: Sequence[str]) -> ToolSpec:
    """``spec`` of a delegation tool, which names the ``models`` that the settings allow."""
    if not models:
        return spec
    text = _ALSO.format(", ".join(models))
    return ToolSpec(spec.name, spec.description, cast("Mapping[str, object]", _replaced(spec.input_schema, text)))


def _replaced(node: object, text: str) -> object:
    if not isinstance(node, dict):
        return node
    fields = cast("Mapping[str, object]", node)
    if fields.get("description") == _MODEL:
        return {**fields, "description": text}
    return {name: _replaced(value, text) for name, value in fields.items()}
