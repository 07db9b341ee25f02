"""Reading ahead: the next chunk is made while the one at hand is used."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, cast

Item = TypeVar("Item")
_END = object()


def read_ahead(source: Iterable[Item]) -> Generator[Item, None, None]:
    """Give what a source gives, read by one thread that is never more than one item ahead.

    All of a pass happens in that thread, its beginning and its end included: a database cursor, say, may not change
    threads. Errors come through where the item would have. Closing waits for an item that is being read.
    """
    thread = ThreadPoolExecutor(1, thread_name_prefix="hardwood-read-ahead")
    iterator: Iterator[Item] | None = None
    try:
        iterator = thread.submit(iter, source).result()
        ahead = thread.submit(next, iterator, _END)
        while (item := ahead.result()) is not _END:
            ahead = thread.submit(next, iterator, _END)
            yield cast(Item, item)
    finally:
        close = getattr(iterator, "close", None)
        if close is not None:
            thread.submit(close).result()
        thread.shutdown()
