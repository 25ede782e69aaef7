"""Where providers are: their addresses and credentials, from settings and the environment. The first provider has
:func:`deputy_agents.model.endpoint.endpoint_of`. Nothing here loads an adapter, so that startup does not."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from deputy_agents.model.endpoint import ApiSettings, Endpoint

_OPENAI_URL = "https://api.openai.com/v1"
_OPENAI_ADDRESS = "OPENAI_BASE_URL (or the setting `providers.openai.baseUrl`), which ends with `/v1`"
_OPENAI_NAMES = (
    ("the setting `baseUrl` (or ANTHROPIC_BASE_URL), which ends before `/v1`", _OPENAI_ADDRESS),
    ("the setting `baseUrl` (or ANTHROPIC_BASE_URL)", "OPENAI_BASE_URL (or the setting `providers.openai.baseUrl`)"),
    ("the setting `baseUrl`, which ends before `/v1`", _OPENAI_ADDRESS),
    ("the setting `baseUrl`", "OPENAI_BASE_URL"),
    ("settings `model` and `baseUrl`", "setting `model` and OPENAI_BASE_URL"),
    ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"),
    ("api.keyCommand", "providers.openai.keyCommand"),
)

_ADDRESS = "the setting `baseUrl` (or ANTHROPIC_BASE_URL)"
_GENERAL = (f"{_ADDRESS}, which ends before `/v1`", _ADDRESS, "the setting `baseUrl`, which ends before `/v1`")

_AWS_LOGIN = "Renew your AWS credentials, for example with `aws sso login`, or set AWS_PROFILE."
_AWS_ERRORS = (
    ("Could not resolve AWS credentials", "There are no AWS credentials", _AWS_LOGIN),
    ("No AWS region", "No AWS region is set", "Set AWS_REGION."),
    ("No workspace ID", "No workspace is set", "Set ANTHROPIC_AWS_WORKSPACE_ID."),
    ("botocore", "The AWS credentials cannot be used", _AWS_LOGIN),
)
_GOOGLE_LOGIN = "Run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS."
_VERTEX_ERRORS = (
    ("No region was given", "No region is set", "Set CLOUD_ML_REGION, for example to `global`."),
    ("project_id", "No project is set", "Set ANTHROPIC_VERTEX_PROJECT_ID."),
    ("google.auth", "The Google credentials cannot be used", _GOOGLE_LOGIN),
)
NO_RESOURCE = "your-resource"
"""Stands for the name of a resource that is not set."""


def openai_endpoint(environ: Mapping[str, str], api: ApiSettings | None = None) -> Endpoint:
    """The endpoint of the settings for this provider, else of the environment. Of the other settings, the times and the
    proxy apply; a key of another service is never sent here."""
    api = api or ApiSettings()
    own = api.of("openai")
    return Endpoint(
        base_url=(own.base_url or "").strip() or environ.get("OPENAI_BASE_URL", "").strip() or _OPENAI_URL,
        key=environ.get("OPENAI_API_KEY", "").strip() or None,
        key_command=own.key_command,
        headers=own.headers,
        proxy=api.proxy,
        connect_timeout=api.connect_timeout,
        idle_timeout=api.idle_timeout,
        names=_OPENAI_NAMES,
    )


def _value(environ: Mapping[str, str], *names: str) -> str | None:
    """The first of the variables that is set."""
    return next(filter(None, (environ.get(name, "").strip() for name in names)), None)


def _options(environ: Mapping[str, str], **names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    found = ((option, _value(environ, *variables)) for option, variables in names.items())
    return tuple((option, value) for option, value in found if value)


def _endpoint(
    prefix: str,
    environ: Mapping[str, str],
    api: ApiSettings | None,
    variables: Mapping[str, tuple[str, ...]],
    *,
    url: Callable[[Endpoint], str],
    url_name: str,
    key_name: str,
    address: str,
    errors: tuple[tuple[str, str, str], ...],
) -> Endpoint:
    """An endpoint of the settings for this provider, else of the environment. ``variables`` name its options there,
    ``address`` is what an address depends on, and ``url`` makes it from the options."""
    api = api or ApiSettings()
    own = api.of(prefix)
    options = dict(_options(environ, **variables)) | dict(own.options)
    where = f"{address} (or {url_name})"
    names = (*((general, where) for general in _GENERAL), ("ANTHROPIC_API_KEY", key_name))
    endpoint = Endpoint(
        key=_value(environ, key_name),
        key_command=own.key_command,
        headers=own.headers,
        proxy=api.proxy,
        connect_timeout=api.connect_timeout,
        idle_timeout=api.idle_timeout,
        options=tuple(options.items()),
        signs=True,
        names=(*names, ("api.keyCommand", f"providers.{prefix}.keyCommand")),
        credential_errors=errors,
    )
    named = (own.base_url or "").strip() or _value(environ, url_name)
    return replace(endpoint, base_url=named or url(endpoint))


_AWS_OPTIONS = {
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "access_key": ("AWS_ACCESS_KEY_ID",),
    "secret_key": ("AWS_SECRET_ACCESS_KEY",),
    "session_token": ("AWS_SESSION_TOKEN",),
}


def _bedrock_url(endpoint: Endpoint) -> str:
    region = endpoint.option("region")
    return f"https://bedrock-runtime.{region}.amazonaws.com" if region else "https://bedrock-runtime.amazonaws.com"


def bedrock_endpoint(environ: Mapping[str, str], api: ApiSettings | None = None) -> Endpoint:
    """Claude on Amazon Bedrock."""
    return _endpoint(
        "bedrock",
        environ,
        api,
        _AWS_OPTIONS,
        url=_bedrock_url,
        url_name="ANTHROPIC_BEDROCK_BASE_URL",
        key_name="AWS_BEARER_TOKEN_BEDROCK",
        address="AWS_REGION",
        errors=_AWS_ERRORS,
    )


def aws_endpoint(environ: Mapping[str, str], api: ApiSettings | None = None) -> Endpoint:
    """Claude on AWS."""
    return _endpoint(
        "aws",
        environ,
        api,
        {**_AWS_OPTIONS, "workspace": ("ANTHROPIC_AWS_WORKSPACE_ID",)},
        url=lambda endpoint: f"https://aws-external-anthropic.{endpoint.option('region') or 'REGION'}.api.aws",
        url_name="ANTHROPIC_AWS_BASE_URL",
        key_name="ANTHROPIC_AWS_API_KEY",
        address="AWS_REGION",
        errors=_AWS_ERRORS,
    )


def _vertex_url(endpoint: Endpoint) -> str:
    region = endpoint.option("region") or "global"
    host = "aiplatform.googleapis.com" if region == "global" else f"{region}-aiplatform.googleapis.com"
    return f"https://{host}/v1"


def vertex_endpoint(environ: Mapping[str, str], api: ApiSettings | None = None) -> Endpoint:
    """Claude on Google Vertex AI."""
    endpoint = _endpoint(
        "vertex",
        environ,
        api,
        {"region": ("CLOUD_ML_REGION",), "project": ("ANTHROPIC_VERTEX_PROJECT_ID",)},
        url=_vertex_url,
        url_name="ANTHROPIC_VERTEX_BASE_URL",
        key_name="your Google credentials",
        address="CLOUD_ML_REGION",
        errors=_VERTEX_ERRORS,
    )
    return replace(endpoint, key=None)


def foundry_endpoint(environ: Mapping[str, str], api: ApiSettings | None = None) -> Endpoint:
    """Claude on Microsoft Foundry."""
    endpoint = _endpoint(
        "foundry",
        environ,
        api,
        {"resource": ("ANTHROPIC_FOUNDRY_RESOURCE",)},
        url=lambda found: f"https://{found.option('resource') or NO_RESOURCE}.services.ai.azure.com/anthropic/",
        url_name="ANTHROPIC_FOUNDRY_BASE_URL",
        key_name="ANTHROPIC_FOUNDRY_API_KEY",
        address="ANTHROPIC_FOUNDRY_RESOURCE",
        errors=(),
    )
    return replace(endpoint, signs=False)
