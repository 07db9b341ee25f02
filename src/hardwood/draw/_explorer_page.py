"""`explain_page`: the explorer, one HTML file with a forest, some rows, and a program that reads them."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from hardwood._typing import Bool, Float
from hardwood.draw._checks import check_labels
from hardwood.draw._explorer_forest import describe_forest, packed
from hardwood.draw._explorer_rows import histograms, importance_shares, passing, sample, spreads, typical_row
from hardwood.draw._explorer_scores import performance
from hardwood.draw._label import visible, xml
from hardwood.errors import reject
from hardwood.forest import Forest, forest_of
from hardwood.forest._foreign import rows_of

FORMAT = 1


def explain_page(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    path: str | Path,
    title: str | None = None,
    sample_rows: int = 500,
) -> Path:
    """Write the explorer, one HTML page in which a reader walks through a model, and return its path.

    The page draws every tree, sends a row through them as the reader changes its cells, with the model's own
    arithmetic, says which trees carry the prediction, and shows what each column does and how good the model is on the
    given rows. It works without a network and sends nothing anywhere. It is for browsers of 2023 and later.

    The page holds rows of `X`: whoever gets it can read them. `sample_rows=0` leaves them out; histograms, counts and
    scores of all rows are still in it.

    Args:
        model: a fitted estimator, a `Forest`, or a fitted tree model of scikit-learn, XGBoost or LightGBM.
        X: rows, best some that the model was not trained on. An estimator takes a table as in `predict`; a forest, a
            data frame, or an array in raw coding.
        y: the true answers: labels or numbers. Without it, the page says nothing about how good the model is.
        path: where the page goes; folders are made, a file of this name is replaced.
        title: the page's heading.
        sample_rows: the most rows that the page holds to pick from.
    """
    forest = forest_of(model)
    if isinstance(sample_rows, bool) or not isinstance(sample_rows, (int, np.integer)) or sample_rows < 0:
        reject("sample_rows", sample_rows, "must be an integer of at least 0", "pass 500, or 0 to leave rows out")
    if title is not None and not title.strip():
        reject("title", title, "is empty", "pass a heading, or None for a plain one")
    table = rows_of(model, X)
    if not len(table):
        reject("X", "a table of 0 rows", "shows nothing about the model", "pass at least one row")
    truth = None if y is None else check_labels(forest, y, len(table))
    document = _document(forest, table, truth, title or _plain_title(forest), int(sample_rows))
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(_page(document), encoding="utf-8", newline="\n")
    return target


def _plain_title(forest: Forest) -> str:
    return "A decision tree" if forest.n_trees == 1 else f"A forest of {forest.n_trees:,} trees"


def _used(forest: Forest) -> Bool[np.ndarray, " features"]:
    """Tell which columns any split or linear leaf looks at."""
    used = np.zeros(forest.n_features, bool)
    used[forest.feature[forest.feature >= 0]] = True
    if forest.weight_feature is not None:
        used[forest.weight_feature] = True
    if forest.leaf_coef is not None:
        used |= (forest.leaf_coef != 0).any(axis=(0, 2))
    return used


def _document(
    forest: Forest, table: Float[np.ndarray, "rows features"], truth: Any, title: str, sample_rows: int
) -> dict[str, Any]:
    """Gather everything that the page says."""
    return {
        "format": FORMAT,
        "title": visible(title),
        "n_rows": len(table),
        "forest": describe_forest(forest),
        "sample": sample(forest, table, truth, sample_rows),
        "typical": packed(typical_row(forest, table), "f8"),
        "histograms": histograms(forest, table, truth, _used(forest)),
        "passing": passing(forest, table, truth),
        "importances": importance_shares(forest, table),
        "spreads": spreads(table),
        "performance": None if truth is None else performance(forest, table, truth),
    }


def _page(document: dict[str, Any]) -> str:
    """Put program, style and data into one page.

    Its policy lets exactly this script and this style sheet work and nothing be fetched, whatever a name holds. In the
    data, no `<` stands as itself, so nothing in it ends its element.
    """
    assets = files("hardwood.draw") / "_explorer"
    script = (assets / "app.js").read_text(encoding="utf-8")
    style = (assets / "app.css").read_text(encoding="utf-8")
    data = json.dumps(document, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{xml(document['title'])}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<div id="app"></div>\n<noscript>This page needs JavaScript. It fetches nothing.</noscript>\n'
        f'<script type="application/json" id="document">{data}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _digest(text: str) -> str:
    """Return the hash by which a Content-Security-Policy knows an inline script or style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
