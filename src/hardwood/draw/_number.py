"""Numbers for readers: as short as they can be, and never so short that two different ones look alike."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta

_EPOCH = datetime(1970, 1, 1)
_PLAIN_FROM, _PLAIN_TO = 1e-4, 1e15


def number(value: float, digits: int = 6) -> str:
    """Write a number with at most `digits` significant digits, in full where it is neither tiny nor huge.

    >>> number(26.268749237060547), number(1234567.89), number(-0.0), number(1e-7)
    ('26.2687', '1234568', '0', '1e-07')
    """
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    size = abs(value)
    if not _PLAIN_FROM <= size < _PLAIN_TO:
        return f"{value:.{digits}g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(size)))
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


def distinct(values: Iterable[float], digits: int = 6) -> dict[float, str]:
    """Write several numbers so that different ones read differently: those that would not get more digits.

    >>> distinct([0.5, 1.00000011, 1.00000023])
    {0.5: '0.5', 1.00000011: '1.0000001', 1.00000023: '1.0000002'}
    """
    written: dict[float, str] = {}
    alike = set(values)
    for tried in range(digits, 17):
        texts = {value: number(value, tried) for value in alike}
        readings = Counter([*texts.values(), *written.values()])
        written |= {value: text for value, text in texts.items() if readings[text] == 1}
        alike -= written.keys()
        if not alike:
            break
    written |= {value: number(value, 17) for value in alike}
    return dict(sorted(written.items()))


def moment(seconds: float) -> str:
    """Write seconds since 1970 as a date and time in UTC; the time is left out at midnight.

    >>> moment(1_614_834_367.5), moment(1_614_816_000.0), moment(1e300)
    ('2021-03-04 05:06:07.500000', '2021-03-04', '1e+300')
    """
    try:
        when = _EPOCH + timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        return repr(seconds)
    return when.isoformat(sep=" ").removesuffix(" 00:00:00")


def percent(share: float) -> str:
    """Write a share between 0 and 1 in percent; only a share of exactly 0 or 1 reads as 0% or 100%.

    >>> percent(0.94736), percent(1.0), percent(0.99999), percent(0.0), percent(1e-9)
    ('94.7%', '100%', '>99.9%', '0%', '<0.1%')
    """
    if share in (0, 1):
        return f"{share:.0%}"
    if 0 < share < 0.001:
        return "<0.1%"
    if 0.999 < share < 1:
        return ">99.9%"
    return f"{share:.1%}".replace(".0%", "%")
