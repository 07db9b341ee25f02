"""History as a list, a frame and a plot; the bar on a terminal and silence elsewhere."""

from __future__ import annotations

import builtins
import io
import sys

import pandas as pd
import pytest

from hardwood.errors import MissingExtraError
from hardwood.train import History, HistoryRecord, TrainingSettings, fit
from helpers.training import restarts, two_moons

RECORDS = [HistoryRecord(1, 4, 0.1, 0.5, 0.6, 1.0, (0.6, 0.7)), HistoryRecord(2, 8, 0.2, 1 / 3, None, 0.5)]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def without(monkeypatch, *names: str) -> None:
    """Make some packages impossible to import."""
    real = builtins.__import__

    def pretend(name, *rest):
        if name.partition(".")[0] in names:
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", pretend)
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


def test_a_list_that_survives_json():
    history = History(RECORDS)
    assert len(history) == 2 and history[1] is RECORDS[1] and list(history) == RECORDS
    assert History.from_json(history.to_json()).records == RECORDS


def test_frames(monkeypatch):
    frame = History(RECORDS).to_frame()
    assert isinstance(frame, pd.DataFrame) and frame["loss"].tolist() == [0.5, 1 / 3]
    without(monkeypatch, "pandas")
    polars = History(RECORDS).to_frame()
    assert polars["step"].to_list() == [4, 8] and polars["tree_losses"].to_list() == [[0.6, 0.7], None]
    without(monkeypatch, "pandas", "polars")
    with pytest.raises(MissingExtraError, match="needs pandas or polars"):
        History(RECORDS).to_frame()


def test_plots(monkeypatch):
    axes = History(RECORDS).plot()
    assert [line.get_label() for line in axes.lines] == ["training", "validation"]
    assert axes.lines[0].get_xdata().tolist() == [1, 2]
    assert History(RECORDS).plot(axes) is axes
    without(monkeypatch, "matplotlib")
    with pytest.raises(MissingExtraError, match=r"hardwood\[plot\]"):
        History(RECORDS).plot()


@pytest.mark.parametrize(
    ("verbose", "stream", "shown"), [(1, Terminal, True), (0, Terminal, False), (1, io.StringIO, False)]
)
def test_the_bar_is_for_terminals(monkeypatch, capsys, verbose, stream, shown):
    monkeypatch.setattr(sys, "stderr", stream())
    monkeypatch.setenv("TERM", "xterm")
    rows, target = two_moons(50)
    fit(restarts(1), rows, target, loss="cross_entropy", settings=TrainingSettings(max_epochs=3), verbose=verbose,
        validation=(rows, target))  # fmt: skip
    written = sys.stderr.getvalue()
    assert ("3/3" in written and "validation" in written) if shown else written == ""
    assert capsys.readouterr().out == ""
