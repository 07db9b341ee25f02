"""How annotations are checked in tests: as mypy reads them, so an int may stand for a float."""

from __future__ import annotations

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
