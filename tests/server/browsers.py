"""A real browser for tests of pages: Debian's Chromium, or the one that Playwright brought, driven by Playwright."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Playwright, sync_playwright

VARIABLE = "ADJOURN_CHROMIUM"
# root needs the first; the others keep it from calling home, which a closed network refuses
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--disable-dev-shm-usage",
]  # fmt: skip


def chromium_of(playwright: Playwright) -> str:
    """The browser's program; the test is skipped, and says so, where there is none."""
    named = os.environ.get(VARIABLE)
    found = [named, shutil.which("chromium"), shutil.which("chromium-browser"), shutil.which("google-chrome")]
    found.append(playwright.chromium.executable_path)
    for one in found:
        if one and Path(one).exists():
            return one
    pytest.skip(f"no Chromium on this machine: apt-get install chromium, or name one with {VARIABLE}")


def launched() -> Iterator[Browser]:
    """One browser, which is closed afterwards."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_of(playwright), args=FLAGS)
        yield browser
        browser.close()


class Visitor:
    """One person at a page. `events` are those that the page took, `troubles` what its console complained about."""

    def __init__(self, browser: Browser, url: str, *, locale: str = "en-US") -> None:
        self.url = url
        self.context = browser.new_context(locale=locale, viewport={"width": 1280, "height": 900})
        self.context.set_default_timeout(30_000)
        self.events: list[dict[str, object]] = []
        self.context.expose_function("__event", self._took)
        self.context.add_init_script("document.addEventListener('adjourn-event', (e) => __event(e.detail))")
        self.page: Page = self.context.new_page()
        self.troubles: list[str] = []
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("console", self._said)
        self.page.on("dialog", lambda dialog: (self.troubles.append(dialog.message), dialog.dismiss()))

    def _took(self, event: dict[str, object]) -> None:
        self.events.append(event)

    def _said(self, message: object) -> None:
        # a request that failed is told by the page itself
        if message.type == "error" and "Failed to load resource" not in message.text:  # type: ignore[attr-defined]
            self.troubles.append(message.text)  # type: ignore[attr-defined]

    def open(self, place: str = "") -> Page:
        self.page.goto(f"{self.url}/{place}")
        return self.page

    def numbers(self) -> list[object]:
        """The numbers of the stored events that the page took, in order."""
        return [one["number"] for one in self.events if one["number"] is not None]


Visit = Callable[..., Visitor]
