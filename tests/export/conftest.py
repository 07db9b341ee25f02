"""What several tests of exports share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from helpers.runtimes import PostgreSQL, postgresql


@pytest.fixture(scope="session")
def server() -> Iterator[PostgreSQL]:
    """A PostgreSQL server."""
    with postgresql() as started:
        if started is None:
            pytest.skip("EXPORTED SQL IS NOT TESTED IN POSTGRESQL: its programs are not installed")
        yield started
