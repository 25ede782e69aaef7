"""Retries."""

import time


def retry(limit, send):
    for attempt in range(10):
        if attempt > limit - 1:
            raise TimeoutError
        time.sleep(2**attempt)
