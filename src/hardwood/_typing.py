"""Shapes in types: jaxtyping where it is installed (always in development), plain types elsewhere.

jaxtyping is a development dependency. A user without it loses nothing: annotations are only checked in tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, Integer, Shaped, UInt8, UInt32
else:
    try:
        from jaxtyping import Bool, Float, Int, Integer, Shaped, UInt8, UInt32
    except ImportError:

        class _Unchecked:
            """Stands in for a jaxtyping dtype: `Float[Tensor, "rows"]` is then just `Tensor`."""

            def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
                return item[0]

        Bool = Float = Int = Integer = Shaped = UInt8 = UInt32 = _Unchecked

__all__ = ["Bool", "Float", "Int", "Integer", "Shaped", "UInt8", "UInt32"]
