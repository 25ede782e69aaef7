"""The wait before a retry, and its status text."""

import pytest

from deputy_agents.domain.errors import ModelErrorKind
from deputy_agents.domain.settings import RetrySettings
from deputy_agents.run.backoff import delay, max_attempts, status_detail

SETTINGS = RetrySettings(base=0.5, cap=4)


@pytest.mark.parametrize(("attempt", "ceiling"), [(2, 0.5), (3, 1), (4, 2), (5, 4), (6, 4), (8, 4)])
def test_waits_double_up_to_the_cap_with_jitter_in_the_upper_half(attempt: int, ceiling: float) -> None:
    assert delay(SETTINGS, attempt, None, lambda: 0.0) == ceiling / 2
    assert delay(SETTINGS, attempt, None, lambda: 0.999) == pytest.approx(ceiling, rel=0.01)


def test_retry_after_is_never_shortened() -> None:
    assert delay(SETTINGS, 2, 30, lambda: 0.0) == 30
    assert 30 < delay(SETTINGS, 2, 30, lambda: 0.999) < 31


def test_the_status_names_the_failure_the_wait_and_the_attempt() -> None:
    assert status_detail(ModelErrorKind.RATE_LIMITED, 4.2, 2, 8) == "rate limited, retrying in 4 s (2/8)"
    assert status_detail(ModelErrorKind.CUT_STREAM, 0.43, 3, 8) == "answer cut off, retrying in 0.4 s (3/8)"


def test_a_service_that_cannot_be_reached_is_tried_twice_and_others_as_often_as_configured() -> None:
    assert [max_attempts(ModelErrorKind.UNREACHABLE, configured) for configured in (1, 2, 8)] == [1, 2, 2]
    assert max_attempts(ModelErrorKind.OVERLOADED, 8) == 8
    assert max_attempts("anything", 8) == 8
