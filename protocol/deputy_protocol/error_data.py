"""The `data` of errors."""

from deputy_protocol.base import Flag, Wire


class InvalidParamsData(Wire):
    """`data` of error -32602."""

    field: str
    """JSON path of the first invalid field, such as `prompt[0].uri`. Empty when the parameters as a whole are
    invalid."""
    reason: str
    """What is wrong with it."""


class ModelFailure(Wire):
    """`data` of error -32006."""

    kind: str
    """Such as `rate_limited`, `authentication` or `connection`."""
    retryable: Flag
    """Whether the same prompt may succeed later."""
    action: str
    """What the user can do."""
