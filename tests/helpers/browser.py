"""A real browser for tests: the Chromium of the system, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from helpers.unavailable import unavailable

_ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
    "--disable-component-update", "--disable-default-apps", "--disable-extensions", "--disable-sync", "--no-first-run",
)  # fmt: skip


def _unavailable(reason: str) -> NoReturn:
    unavailable(
        f"NO BROWSER, SO THE EXPLORER PAGE IS NOT TESTED: {reason}. Install one (apt-get install chromium), or name "
        "yours with CHROMIUM=/path/to/chromium, and pip install playwright"
    )


@contextmanager
def chromium() -> Iterator[Any]:
    """Start a headless Chromium and close it, and all that belongs to it, at the end."""
    executable = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if executable is None:
        _unavailable("there is no chromium on the PATH")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as missing:
        _unavailable(f"playwright cannot be imported ({missing})")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, headless=True, args=list(_ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """A page of the browser that remembers what a good page does not do: complain, or fetch something."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **options})
        self.page = self.context.new_page()
        self.page.set_default_timeout(5000)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("dialog", self._dismiss)
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _dismiss(self, dialog: Any) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def close(self) -> None:
        """Close the page, and fail if it complained or fetched anything but itself."""
        url = self.page.url
        self.context.close()
        assert self.complaints == []
        assert self.requests == [url]
