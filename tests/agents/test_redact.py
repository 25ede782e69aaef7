"""Secrets are redacted; text that only resembles one is not."""

import re
from hashlib import sha256, sha512
from pathlib import Path
from time import process_time
from uuid import UUID

import pytest

from deputy_agents import redact
from deputy_agents.redact import KEY_FORMATS, MASK, Redactor

HEX = "0123456789abcdef"
LOWER = "abc1defg2hijk3lmno4pqrs5tuvw6xyz"
UPPER = LOWER.upper()
MIXED = "aB3dE5fG7hJ9kL2mN4pQ6rS8tU"


def body(alphabet: str, length: int) -> str:
    """The random part of a key. Keys are assembled here, so that no scanner takes this file for a leak."""
    return (alphabet * (length // len(alphabet) + 1))[:length]


KEYS = {
    "private key": ("-----BEGIN ", "RSA PRIVATE KEY-----\n", body(MIXED, 64), "\n-----END ", "RSA PRIVATE KEY-----"),
    "model service": ("sk-", "ant-api03-", body(MIXED, 93)),
    "1Password": ("ops_", "eyJ", body(MIXED, 260)),
    "Adobe": ("p8e-", body(LOWER, 32)),
    "age": ("AGE-SECRET-", "KEY-1", body(UPPER, 58)),
    "Alibaba Cloud": ("LTAI", body(MIXED, 20)),
    "Artifactory": ("AKCp", body(MIXED, 69)),
    "Atlassian": ("ATATT3", body(MIXED, 186)),
    "AWS": ("AKIA", body(UPPER, 16)),
    "AWS, temporary": ("ASIA", body(UPPER, 16)),
    "Azure Storage": ("AccountKey", "=", body(MIXED, 86), "=="),
    "Brevo": ("xkeysib-", body(HEX, 64), "-", body(MIXED, 16)),
    "Cerebras": ("csk-", body(LOWER, 48)),
    "Clojars": ("CLOJARS_", body(HEX, 60)),
    "Cloudflare": ("v1.0-", body(HEX, 24), "-", body(HEX, 146)),
    "Contentful": ("CFPAT-", body(MIXED, 43)),
    "Databricks": ("dapi", body(HEX, 32)),
    "DigitalOcean": ("dop_", "v1_", body(HEX, 64)),
    "Discord": ("/api/", "webhooks/", body("1234567890", 18), "/", body(MIXED, 68)),
    "Docker": ("dckr_", "pat_", body(MIXED, 27)),
    "Doppler": ("dp.", "st.dev.", body(MIXED, 43)),
    "Dynatrace": ("dt0c01", ".", body(UPPER, 24), ".", body(UPPER, 64)),
    "Figma": ("figd_", body(MIXED, 40)),
    "Fly.io": ("fo1_", body(MIXED, 43)),
    "Fly.io, macaroon": ("fm2_", body(MIXED, 120)),
    "GitHub": ("ghp_", body(MIXED, 36)),
    "GitHub, fine-grained": ("github_", "pat_", body(MIXED, 82)),
    "GitLab": ("glpat-", body(MIXED, 20)),
    "GitLab, other tokens": ("glrt-", body(MIXED, 20)),
    "Google API": ("AIza", body(MIXED, 35)),
    "Google OAuth": ("GOCSPX-", body(MIXED, 28)),
    "Google access token": ("ya29", ".", body(MIXED, 60)),
    "Grafana": ("glsa_", body(MIXED, 32), "_", body(HEX, 8)),
    "Grafana Cloud": ("glc_", body(MIXED, 60)),
    "Groq": ("gsk_", body(MIXED, 52)),
    "Heroku": ("HRKU-", "AA", body(MIXED, 58)),
    "Hugging Face": ("hf_", body(MIXED, 34)),
    "Hugging Face, organization": ("api_", "org_", body(MIXED, 34)),
    "LangSmith": ("lsv2_", "pt_", body(HEX, 32), "_", body(HEX, 10)),
    "Linear": ("lin_", "api_", body(MIXED, 40)),
    "Mapbox": ("sk", ".eyJ", body(MIXED, 60), ".", body(MIXED, 22)),
    "Netlify": ("nfp_", body(MIXED, 36)),
    "New Relic": ("NRAK-", body(UPPER, 27)),
    "Notion": ("ntn_", body("1234567890", 11), body(MIXED, 35)),
    "npm": ("npm_", body(MIXED, 36)),
    "NVIDIA": ("nvapi-", body(MIXED, 64)),
    "OpenShift": ("sha256", "~", body(MIXED, 43)),
    "Perplexity": ("pplx-", body(MIXED, 48)),
    "PlanetScale": ("pscale_", "tkn_", body(MIXED, 43)),
    "Postman": ("PMAK-", body(HEX, 24), "-", body(HEX, 34)),
    "Prefect": ("pnu_", body(MIXED, 36)),
    "Pulumi": ("pul-", body(HEX, 40)),
    "PyPI": ("pypi-", "AgE", body(MIXED, 160)),
    "ReadMe": ("rdme_", body(LOWER, 70)),
    "Replicate": ("r8_", body(MIXED, 37)),
    "RubyGems": ("rubygems_", body(HEX, 48)),
    "SendGrid": ("SG", ".", body(MIXED, 22), ".", body(MIXED, 43)),
    "Sentry": ("sntryu_", body(HEX, 64)),
    "Shippo": ("shippo_", "live_", body(HEX, 40)),
    "Shopify": ("shpat_", body(HEX, 32)),
    "Slack": ("xoxb-", body("1234567890", 12), "-", body(MIXED, 24)),
    "Slack, app": ("xapp-", "1-", body(UPPER, 11), "-", body("1234567890", 13), "-", body(HEX, 64)),
    "Slack, webhook": ("hooks.", "slack.com/", "services/", body(UPPER, 9), "/", body(UPPER, 9), "/", body(MIXED, 24)),
    "Sourcegraph": ("sgp_", body(HEX, 16), "_", body(HEX, 40)),
    "Square": ("sq0", "csp-", body(MIXED, 43)),
    "Stripe, restricted": ("rk_", "live_", body(MIXED, 24)),
    "Stripe, secret": ("sk_", "test_", body(MIXED, 24)),
    "Stripe, webhook": ("whsec_", body(MIXED, 32)),
    "Supabase": ("sbp_", body(HEX, 40)),
    "Tailscale": ("tskey-", "auth-", body(MIXED, 12), "-", body(MIXED, 32)),
    "Tavily": ("tvly-", body(MIXED, 32)),
    "Typeform": ("tfp_", body(MIXED, 59)),
    "Vault": ("hvs", ".", body(MIXED, 95)),
    "xAI": ("xai-", body(MIXED, 80)),
}


def test_every_key_format_has_a_sample() -> None:
    assert list(KEYS) == [key_format.provider for key_format in KEY_FORMATS]


@pytest.mark.parametrize("provider", KEYS)
@pytest.mark.parametrize(
    ("before", "after"), [("", ""), ("use '", "' here"), ("TOKENS=", "\n"), ('"a\\n', '\\n"'), ("(", ")")]
)
def test_keys_of_providers_are_redacted(provider: str, before: str, after: str) -> None:
    assert Redactor({}).text(f"{before}{''.join(KEYS[provider])}{after}") == f"{before}{MASK}{after}"


@pytest.mark.parametrize("key_format", KEY_FORMATS, ids=[key_format.provider for key_format in KEY_FORMATS])
def test_repeated_prefixes_take_linear_time(key_format: tuple[str, str, str]) -> None:
    """Quadratic time would be many seconds."""
    parts = KEYS[key_format[0]]
    started = process_time()
    for word in (key_format[1], "".join(parts)[: len(key_format[1]) + 6], "".join(parts)[:-1] + "!"):
        Redactor({}).text(word * (50_000 // len(word)))
    assert process_time() - started < 2


@pytest.mark.parametrize(
    "text",
    [
        "in task-management-service/app.py",
        "risk-assessment-report-2024.md",
        "see disk-usage-of-all-machines-1",
        "John Appleseed wrote it",
        sha256(b"a").hexdigest(),
        f"sha512-{sha512(b'a').hexdigest()}",
        f"image@sha256:{sha256(b'b').hexdigest()}",
        f"commit {sha256(b'c').hexdigest()[:40]}",
        f"id={UUID(int=2**100)}",
        "from huggingface_hub import hf_hub_download, hf_transfer_enabled_by_default_since_2024",
        "npm_config_registry=https://registry.example npm_package_dependencies_typescript_version_5",
        "def sk_test_split_of_the_training_data_2024(rk_test_values_of_the_whole_run_1): ...",
        "hvs.compute_the_horizontal_vertical_sum(); dp.pt.position_of_the_pointer",
        "AIzawa lives in ASIA; THE ASIAPACIFICREGIONALOFFICE is in AKIAK",
        "glab-merge-request-of-the-day glue-layer-between-two-modules ghost_in_the_shell_of_a_user",
        "https://hooks.slack.com/services and https://discord.com/api/webhooks/ are documented",
        "sha256~ and pul-request pypi-server shpat_ figd_ xai-grok-beta-2024 nvapi-proxy",
    ],
)
def test_ordinary_text_is_kept(text: str) -> None:
    environ = {"GIT_AUTHOR_NAME": "John Appleseed", "KEYBOARD_LAYOUT": "John Appleseed"}
    assert Redactor(environ).text(text) == text


def test_no_key_format_matches_source_code() -> None:
    formats = [(prefix, re.compile(re.escape(prefix) + rest, re.DOTALL)) for _, prefix, rest in KEY_FORMATS]
    for file in Path(__file__).parents[2].joinpath("agents").rglob("*.py"):
        text = file.read_text()
        assert not [prefix for prefix, pattern in formats if prefix in text and pattern.search(text)], file


def test_existing_path_is_kept_whatever_its_variable_is_called(tmp_path: Path) -> None:
    environ = {"PASSWORD_STORE_DIR": str(tmp_path), "SSH_AUTH_SOCK": str(tmp_path)}
    assert Redactor(environ).text(f"{tmp_path}/a.txt") == f"{tmp_path}/a.txt"


@pytest.mark.parametrize("name", ["MY_TOKEN", "DB_PASSWORD", "API_KEYS", "GITHUBTOKEN", "SECRET", "AUTH", "KEY_1"])
def test_values_of_variables_with_secret_names_are_redacted(name: str) -> None:
    assert Redactor({name: "open sesame"}).text("say open sesame now") == f"say {MASK} now"


@pytest.mark.parametrize("word", ["a-", "sk-", "eyJaaaaaaaa", "password", "password ", "api-key-", "://a:", "secret="])
def test_repeated_word_takes_linear_time(word: str) -> None:
    """Scanning to the end of the text from each position would take hours."""
    text = word * 20_000 + "!"
    assert Redactor({}).text(text).endswith(("!", MASK))


@pytest.mark.parametrize(
    "text",
    [
        "DB_PASSWORD=open-sesame",
        'my-api-key-of-old: "open sesame"',
        "client_secret_v2 = 'open sesame'",
        "Auth-Token: open-sesame",
        "ACCESSKEY=open-sesame",
        "pAsSwD = open-sesame",
    ],
)
def test_values_assigned_to_secret_names_are_redacted(text: str) -> None:
    assert "sesame" not in Redactor({}).text(text)


@pytest.mark.parametrize("before", ["", "Bearer ", "session_", "a-"])
def test_web_tokens_are_redacted_whatever_precedes_them(before: str) -> None:
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"
    assert Redactor({}).text(f"{before}{token} end") == f"{before}{MASK} end"


def test_login_in_a_url_is_redacted() -> None:
    assert Redactor({}).text("git clone https://me:open-sesame@host/x") == f"git clone https://{MASK}@host/x"


def test_key_in_a_sentence_is_redacted() -> None:
    assert MASK in Redactor({}).text("use sk-ant-api03-abcdefghijklmnop")


@pytest.mark.parametrize("part", [1, 7, 50, 1000])
def test_secrets_are_found_wherever_the_text_is_divided(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"A_TOKEN": "value-of-the-environment", "B_SECRET": "two\nlines of it"}
    keys = ["".join(parts) for parts in KEYS.values()]
    others = ['db_password = "p4ss word"', "https://user:pass@host/x", f"eyJ{MIXED}.{MIXED}.{MIXED}", *environ.values()]
    text = "\n".join(f"before {secret} after" for secret in (*keys, *others, *keys))
    whole = Redactor(environ).text(text)
    monkeypatch.setattr(redact, "_PART", part)
    assert Redactor(environ).text(text) == whole
    assert whole.count(MASK) == 2 * len(keys) + len(others)


@pytest.mark.parametrize("length", [redact._PART - 20, redact._PART + 5, 3 * redact._PART])  # pyright: ignore[reportPrivateUsage]
def test_key_longer_than_a_part_is_removed_to_its_end(length: int) -> None:
    key = "ghp_" + body(MIXED, length)
    for before in ("", "word " * (redact._PART // 5 - 2)):  # pyright: ignore[reportPrivateUsage]
        assert Redactor({}).text(f"{before}{key} after") == f"{before}{MASK} after"


def test_private_key_without_an_end_is_removed_as_far_as_one_can_be_long() -> None:
    begin = "".join(KEYS["private key"][:2])
    assert Redactor({}).text(f"x {begin}{body(MIXED, 5000)}") == f"x {MASK}"
    log = "line of a log\n" * 100_000
    text = Redactor({}).text(f"x {begin}{log}the end")
    assert text.startswith(f"x {MASK}")
    assert text.endswith("the end")
