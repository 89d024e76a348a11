"""Is it worth asking a model again after this error, and when? (C-58) Pure."""

import random

from adjourn.nodes.failures import failure_of, http_status, retry_after_s

ATTEMPTS = 3  # of one model, the first included
BACKOFF_S = 0.5  # before the second attempt; doubled for the third, and jittered by half
TRANSIENT_STATUS = frozenset({408, 409, 429})  # and everything from 500

# How a stream that broke off in its middle shows itself: an event with half a JSON, an error event (under status 200, with
# which the stream had begun). By name: the classes are the providers' own, which need not be installed.
_BROKEN_STREAM = frozenset({"JSONDecodeError", "APIError", "APIStatusError"})

# langchain-openai tells by a ValueError that nothing came, and that a response of the Responses API failed: by these codes.
_BROKEN_WORDS = ("No generation chunks", "server_error", "rate_limit_exceeded", "vector_store_timeout")


def is_transient(error: BaseException) -> bool:
    """Whether asking again may help: network errors, 408, 409, 429 and everything from 500."""
    status = http_status(error)
    if status is not None:
        return status in TRANSIENT_STATUS or status >= 500
    if failure_of(error).again or type(error).__name__ in _BROKEN_STREAM:
        return True
    return isinstance(error, ValueError) and any(word in str(error) for word in _BROKEN_WORDS)


def wait_before_s(error: BaseException, attempts: int, left_s: float | None) -> float | None:
    """Seconds to wait before this model is asked again, after `attempts`; None: it is not asked again.

    What the server asks for is respected, but for a wait that ends when the run's time (`left_s`) is over.
    """
    if attempts >= ATTEMPTS:
        return None
    asked = retry_after_s(error)
    wait_s = BACKOFF_S * 2.0 ** (attempts - 1) * random.uniform(0.5, 1.5) if asked is None else asked
    return None if left_s is not None and wait_s >= left_s else wait_s
