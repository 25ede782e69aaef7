"""How long a failed request waits, and how that is said."""

import pytest

from deputy_agents.domain.errors import ModelErrorKind
from deputy_agents.domain.settings import RetrySettings
from deputy_agents.run.backoff import announcement, delay

SETTINGS = RetrySettings(base=0.5, cap=4)


@pytest.mark.parametrize(("attempt", "ceiling"), [(2, 0.5), (3, 1), (4, 2), (5, 4), (6, 4), (8, 4)])
def test_waits_double_up_to_the_cap_with_jitter_in_the_upper_half(attempt: int, ceiling: float) -> None:
    assert delay(SETTINGS, attempt, None, lambda: 0.0) == ceiling / 2
    assert delay(SETTINGS, attempt, None, lambda: 0.999) == pytest.approx(ceiling, rel=0.01)


def test_the_wait_that_the_server_asks_for_is_never_cut_short() -> None:
    assert delay(SETTINGS, 2, 30, lambda: 0.0) == 30
    assert 30 < delay(SETTINGS, 2, 30, lambda: 0.999) < 31


def test_the_announcement_says_what_and_when_and_how_often() -> None:
    assert announcement(ModelErrorKind.RATE_LIMITED, 4.2, 2, 8) == "rate limited, retrying in 4 s (2/8)"
    assert announcement(ModelErrorKind.CUT_STREAM, 0.43, 3, 8) == "answer cut off, retrying in 0.4 s (3/8)"
