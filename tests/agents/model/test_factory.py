"""Selection of the model and creation of its adapter."""

import subprocess
import sys

import pytest

from deputy_agents.model.endpoint import ApiSettings, endpoint_of
from deputy_agents.model.factory import DEFAULT_MODEL, ModelChoice, Models, choose_model
from deputy_agents.model.offline.model import OfflineModel


@pytest.mark.parametrize(
    ("setting", "environ", "name"),
    [
        ("my-model", {"DEPUTY_MODEL": "other", "ANTHROPIC_API_KEY": "k"}, "my-model"),
        (" ", {"DEPUTY_MODEL": "other", "ANTHROPIC_API_KEY": "k"}, "other"),
        (None, {"ANTHROPIC_API_KEY": "k"}, DEFAULT_MODEL),
        (None, {"ANTHROPIC_AUTH_TOKEN": "t"}, DEFAULT_MODEL),
        ("offline", {"ANTHROPIC_API_KEY": "k"}, "offline"),
    ],
)
def test_the_setting_precedes_the_environment_and_a_key(
    setting: str | None, environ: dict[str, str], name: str
) -> None:
    assert choose_model(setting, environ) == ModelChoice(name)


@pytest.mark.requirement("X18")
@pytest.mark.parametrize("environ", [{}, {"ANTHROPIC_API_KEY": "  "}])
def test_without_configuration_the_offline_model_is_used_with_a_notice(environ: dict[str, str]) -> None:
    choice = choose_model(None, environ)
    assert choice.name == "offline"
    assert choice.notice is not None
    assert "ANTHROPIC_API_KEY" in choice.notice


def test_the_address_in_the_settings_precedes_the_environment() -> None:
    environ = {"ANTHROPIC_BASE_URL": "http://env", "ANTHROPIC_API_KEY": " key "}
    assert endpoint_of(environ, ApiSettings("http://setting")).base_url == "http://setting"
    assert endpoint_of(environ).base_url == "http://env"
    assert endpoint_of(environ).key == "key"
    assert endpoint_of({}).base_url.startswith("https://")


@pytest.mark.asyncio
async def test_all_models_of_an_endpoint_share_one_adapter() -> None:
    models = Models({"ANTHROPIC_API_KEY": "k"}, ApiSettings("http://127.0.0.1:9"))
    first = models("one")
    assert models("two") is first
    assert isinstance(models("offline"), OfflineModel)
    models.api = ApiSettings("http://127.0.0.1:10")
    assert models("one") is not first
    await models.aclose()


def test_creating_a_model_does_not_import_the_sdk() -> None:
    code = (
        "import sys; from deputy_agents.model.factory import Models; Models({'ANTHROPIC_API_KEY': 'k'})('m');"
        "assert not {'anthropic', 'httpx2'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
