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
    models = Models({"ANTHROPIC_API_KEY": "k"})
    here, there = models.of(ApiSettings("http://127.0.0.1:9")), models.of(ApiSettings("http://127.0.0.1:10"))
    first = here("one")
    assert here("two") is first
    assert models.of(ApiSettings("http://127.0.0.1:9"))("one") is first
    assert isinstance(here("offline"), OfflineModel)
    assert there("one") is not first
    assert here("one") is first
    await models.aclose()


def test_creating_a_model_does_not_import_the_sdk() -> None:
    code = (
        "import sys; from deputy_agents.model.factory import Models; Models({'ANTHROPIC_API_KEY': 'k'}).of()('m');"
        "assert not {'anthropic', 'httpx2'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


@pytest.mark.requirement("L4")
def test_address_without_a_key_uses_the_offline_model_and_says_what_is_missing() -> None:
    choice = choose_model(None, {"ANTHROPIC_BASE_URL": "https://me:s3cret@models.example"})
    assert choice.name == "offline"
    assert choice.notice is not None
    assert choice.notice.startswith("https://models.example is set as the address")
    assert "ANTHROPIC_API_KEY" in choice.notice


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080", "http://localhost:11434/", "http://[::1]:1"])
def test_service_on_this_machine_needs_no_key(url: str) -> None:
    assert choose_model(None, {"ANTHROPIC_BASE_URL": url}) == ModelChoice(DEFAULT_MODEL)
    assert choose_model(None, {}, ApiSettings(url)) == ModelChoice(DEFAULT_MODEL)
