"""What `fit` leaves behind: all of it, or, after an error, what was there before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_PRIVATE = ("_session", "_online", "_running_losses", "_cells", "_target", "_inputs")


@contextmanager
def all_or_nothing(estimator: Any) -> Iterator[None]:
    """Put an estimator's fitted attributes back as they were if the block raises anything."""
    held = vars(estimator)
    before = {name: value for name, value in held.items() if _is_fitted(name)}
    try:
        yield
    except BaseException:
        for name in [name for name in held if _is_fitted(name)]:
            del held[name]
        held.update(before)
        raise


def _is_fitted(name: str) -> bool:
    return name in _PRIVATE or (name.endswith("_") and not name.startswith("_"))
