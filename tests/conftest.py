"""What every test needs."""

import signal
from collections.abc import Generator

import pytest
from hypothesis import settings

# A shell that starts the tests in the background lets them ignore Ctrl-C, and so would every process that
# they start; some of these are tested for what they do on Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes is no property of the code: another program may have the processor meanwhile.
settings.register_profile("adjourn", deadline=None)
settings.load_profile("adjourn")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a test printed, logged or failed with may hold half a character, which no worker can send."""
    report = yield
    report.sections = [(name, _sendable(text)) for name, text in report.sections]
    if report.longrepr is not None and not isinstance(report.longrepr, tuple):
        told = str(report.longrepr)
        report.longrepr = report.longrepr if _sendable(told) == told else _sendable(told)
    return report


def _sendable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()
