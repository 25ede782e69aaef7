"""``deputy models``: the models that can be used, and what is known about them."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from deputy_protocol.model import ListedModel


def models(
    settings: Annotated[
        Path | None, typer.Option(help="JSON file with the settings of your editor, to list its models.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the models that you can use.

    Asks the model service for its list. Without a connection, lists the models that Deputy knows. The first column is
    the name for the setting `model`; a name that is not listed works as well.

    Examples: `deputy models` · `deputy models --json | jq -r '.models[].name'`
    """
    import anyio

    from deputy_agents.domain.errors import InvalidRequest
    from deputy_protocol.base import to_wire
    from deputy_server.doctor import read_settings
    from deputy_server.model_listing import list_models
    from deputy_server.settings_files import UserDefaults

    try:
        listed = anyio.run(list_models, UserDefaults().below(read_settings(settings)))
    except InvalidRequest as error:
        raise typer.BadParameter(str(error), param_hint="--settings") from None
    if as_json:
        typer.echo(json.dumps(to_wire(listed), ensure_ascii=False, indent=2))
        return
    rows = [_row(model, is_default=model.name == listed.default) for model in listed.models]
    widths = [max(len(row[column]) for row in (_HEAD, *rows)) for column in range(len(_HEAD))]
    for row in (_HEAD, *rows):
        typer.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    if listed.problem:
        typer.echo(listed.problem, err=True)


_HEAD = ("MODEL", "NAME", "WINDOW", "REPLY", "PRICE", "THINKING", "EFFORT")


def _row(model: "ListedModel", *, is_default: bool) -> tuple[str, ...]:
    from deputy_agents.text import visible

    price = model.price
    return (
        visible(model.name) + (" (default)" if is_default else ""),
        visible(model.display_name or ""),
        _tokens(model.window),
        _tokens(model.max_output),
        f"${price.input:g} / ${price.output:g}" if price else "",
        ", ".join(model.thinking) if model.thinking is not None else "",
        ", ".join(model.efforts) if model.efforts is not None else "",
    )


def _tokens(count: int | None) -> str:
    if count is None:
        return ""
    return f"{count / 1_000_000:g}M" if count >= 1_000_000 else f"{count / 1000:g}k"
