"""Models as the service lists them, and what it accepts from each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

EFFORTS = ("low", "medium", "high", "xhigh", "max")
THINKING = ("adaptive", "enabled", "between_tools", "disabled")


@dataclass(frozen=True)
class Model:
    """A model of the service. ``sampling``: it accepts a temperature."""

    name: str
    display_name: str
    efforts: Sequence[str]
    thinking: Sequence[str]
    window: int = 1_000_000
    max_output: int = 128_000
    sampling: bool = False


MODELS: Mapping[str, Model] = {
    model.name: model
    for model in (
        Model("claude-sonnet-5-5", "Claude Sonnet 5.5", EFFORTS, ("adaptive", "between_tools")),
        Model("claude-opus-5-5", "Claude Opus 5.5", EFFORTS, ("adaptive",)),
        Model("claude-haiku-5-5", "Claude Haiku 5.5", EFFORTS, ("adaptive", "disabled")),
        Model(
            "claude-opus-4-6",
            "Claude Opus 4.6",
            ("low", "medium", "high", "max"),
            ("adaptive", "enabled", "disabled"),
            sampling=True,
        ),
        Model(
            "claude-haiku-4-5-20251001",
            "Claude Haiku 4.5",
            (),
            ("enabled", "disabled"),
            window=200_000,
            max_output=64_000,
            sampling=True,
        ),
    )
}


def known_model(name: str) -> Model | None:
    return MODELS.get(name) or next((model for key, model in MODELS.items() if key.startswith(f"{name}-20")), None)


def model_page(models: Sequence[Model], after: str | None = None, limit: int = 20) -> Json:
    """A page of ``GET /v1/models``."""
    names = [model.name for model in models]
    start = names.index(after) + 1 if after in names else 0
    page = models[start : start + limit]
    return {
        "data": [model_info(model) for model in page],
        "has_more": start + limit < len(models),
        "first_id": page[0].name if page else None,
        "last_id": page[-1].name if page else None,
    }


def model_info(model: Model) -> Json:
    yes, no = {"supported": True}, {"supported": False}
    effort = {level: yes if level in model.efforts else no for level in EFFORTS}
    types = {kind: yes if kind in model.thinking else no for kind in THINKING}
    return {
        "type": "model",
        "id": model.name,
        "display_name": model.display_name,
        "created_at": "2026-09-22T00:00:00Z",
        "lifecycle": "active",
        "line": model.name.split("-")[1],
        "deprecated_at": None,
        "retires_at": None,
        "max_input_tokens": model.window,
        "max_tokens": model.max_output,
        "capabilities": {
            "batch": yes,
            "citations": yes,
            "code_execution": yes,
            "context_management": {"supported": True},
            "effort": {"supported": bool(model.efforts), **effort},
            "image_input": yes,
            "pdf_input": yes,
            "server_tools": {"supported": True, "web_search": yes, "code_execution": yes},
            "structured_outputs": yes,
            "thinking": {"supported": True, "types": types},
        },
    }
