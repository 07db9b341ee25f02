"""Tables in: columns recognised, encoded for training, and a trained forest brought back to raw columns."""

from __future__ import annotations

from hardwood.data._columns import Columns as Columns
from hardwood.data._columns import learn_columns as learn_columns
from hardwood.data._columns import take_rows as take_rows
from hardwood.data._encoder import TableEncoder as TableEncoder
from hardwood.data._expand import ExpandedColumns as ExpandedColumns
from hardwood.data._expand import learn_expanded as learn_expanded
from hardwood.data._images import ImageReader as ImageReader
from hardwood.data._monotone import Identity as Identity
from hardwood.data._monotone import Monotone as Monotone
from hardwood.data._monotone import Standard as Standard
from hardwood.data._monotone import fit_standard as fit_standard
from hardwood.data._quantile import Quantile as Quantile
from hardwood.data._quantile import fit_quantile as fit_quantile
from hardwood.data._split import split_rows as split_rows
from hardwood.data._stream import TableStream as TableStream
from hardwood.data._stream import stream as stream
from hardwood.data._stream_checks import TableChunk as TableChunk
from hardwood.data._stream_files import read_csv as read_csv
from hardwood.data._stream_files import read_parquet as read_parquet
from hardwood.data._stream_sample import StreamSample as StreamSample
from hardwood.data._stream_sample import sample as sample
from hardwood.data._words import WordHasher as WordHasher

__all__ = [
    "Columns",
    "ExpandedColumns",
    "Identity",
    "ImageReader",
    "Monotone",
    "Quantile",
    "Standard",
    "StreamSample",
    "TableChunk",
    "TableEncoder",
    "TableStream",
    "WordHasher",
    "fit_quantile",
    "fit_standard",
    "learn_columns",
    "learn_expanded",
    "read_csv",
    "read_parquet",
    "sample",
    "split_rows",
    "stream",
    "take_rows",
]
