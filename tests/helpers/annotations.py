"""How annotations are checked in tests: as mypy reads them, so an int may stand for a float."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from beartype import BeartypeConf, beartype

_check = beartype(conf=BeartypeConf(is_pep484_tower=True))
_checked: dict[Hashable, Callable[..., Any]] = {}


def check(stub: Callable[..., Any]) -> Callable[..., Any]:
    """Let a stub, which has a function's signature and no more, check its arguments.

    A function inside another is made anew by every call of that, and its stubs with it, but what checks them stays the
    same: it is made once for each signature, since making it takes longer than most functions.
    """
    code = stub.__code__
    signature = (
        stub.__module__, stub.__qualname__, code.co_varnames, code.co_code, tuple(stub.__annotations__.items()),
        stub.__defaults__, tuple((stub.__kwdefaults__ or {}).items()),
    )  # fmt: skip
    try:
        if signature not in _checked:
            _checked[signature] = _check(stub)
        return _checked[signature]
    except TypeError:  # a default that has no hash
        return _check(stub)
