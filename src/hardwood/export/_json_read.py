"""Reading a forest's JSON: every key and every type is checked, and the forest's own checks come last."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from hardwood._typing import Shaped
from hardwood.errors import ForestFileError, InvalidArgumentError, reject
from hardwood.forest import CATEGORIES, LEAF, OBLIQUE, THRESHOLD, Forest
from hardwood.forest._schema import ALTERED, Malformed, read_json

FORMAT, VERSION = "hardwood forest as nested JSON", 1
MOST_LEVELS = 400  # Python's own JSON reader recurses

_TOP = {"format", "version", "combine", "link", "base", "outputs", "classes", "features", "trees"}
_SPLIT = {"node", "missing", "left", "right"}
_LABELS = re.compile(r"b1|[iu][1248]|f[248]|U[1-9][0-9]{0,4}")
_FOREIGN = "pass text that hardwood.export.to_json wrote"


def read(text: Any) -> Forest:
    """Return the forest that a text holds; raise `ForestFileError` for any other text."""
    if not isinstance(text, str):
        reject("text", text, "is no text", "read the file as text first, encoded as UTF-8")
    try:
        return Forest(**_fields(read_json(text)))
    except Malformed as error:
        problem, remedy = str(error), error.remedy
    except InvalidArgumentError as error:
        problem, remedy = f"it holds no valid forest ({error})", ALTERED
    except (OverflowError, MemoryError) as error:
        problem, remedy = f"reading it failed ({error!r})", ALTERED
    raise ForestFileError(f"the JSON cannot be read: {problem}; {remedy}")


def _fields(document: Any) -> dict[str, Any]:
    """Return what `Forest` takes as its fields."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise Malformed("it holds something else than a forest", _FOREIGN)
    if type(document.get("version")) is not int or document["version"] != VERSION:
        raise Malformed(f"its version is {_shown(document.get('version'))}, not {VERSION}", "upgrade hardwood")
    _keys(document, _TOP, "document")
    outputs = _keys(document["outputs"], {"count", "names"}, "outputs")
    if type(outputs["count"]) is not int or outputs["count"] < 1:
        raise Malformed(f"its number of outputs is {_shown(outputs['count'])}")
    base, names = document["base"], outputs["names"]
    columns = _Columns(_list(document["features"], "features"))
    nodes = _Nodes(columns, outputs["count"])
    for tree in _list(document["trees"], "trees"):
        nodes.add_tree(tree)
    return {
        "n_features": len(columns.features),
        "combine": _text(document["combine"], "combine"),
        "link": _text(document["link"], "link"),
        "base": None if base is None else _numbers(base, outputs["count"], "base"),
        "feature_names": columns.names,
        "feature_types": columns.types,
        "categories": columns.vocabularies,
        "classes": _classes(document["classes"]),
        "output_names": None if names is None else [_text(name, "name of an output") for name in _list(names, "names")],
        **nodes.arrays(),
    }


# ---------------------------------------------------------------- columns


class _Columns:
    """The columns: names, types and vocabularies, and what nodes say instead of numbers and codes."""

    def __init__(self, features: list[Any]) -> None:
        self.features = [_keys(feature, set(), "features", {"name", "type", "categories"}) for feature in features]
        self.names = self._all("name")
        self.types = self._all("type")
        self.vocabularies = {
            column: tuple(_word(word) for word in _list(feature["categories"], "categories"))
            for column, feature in enumerate(self.features)
            if "categories" in feature
        }
        self._number = {name: column for column, name in enumerate(self.names or ())}
        self._codes = {
            column: {word: code for code, word in enumerate(words)} for column, words in self.vocabularies.items()
        }

    def _all(self, key: str) -> list[str] | None:
        given = [_text(feature[key], f"{key} of a feature") for feature in self.features if key in feature]
        if given and len(given) != len(self.features):
            raise Malformed(f"only some of its features have a {key}")
        return given or None

    def number(self, name: Any) -> int:
        """Return the column that a node means."""
        if self.names is not None and isinstance(name, str) and name in self._number:
            return self._number[name]
        if self.names is None and type(name) is int and 0 <= name < len(self.features):
            return name
        raise Malformed(f"one of its nodes is about the feature {_shown(name)}, which it has not")

    def codes(self, column: int, words: Any) -> list[int]:
        """Return the codes of the words of a category split."""
        known, found = self._codes.get(column, {}), []
        for word in _list(words, "words of a split"):
            code = known.get(_word(word))
            if code is None:
                raise Malformed(f"one of its splits has the category {_shown(word)}, which its feature has not")
            found.append(code)
        return found


# ---------------------------------------------------------------- trees


class _Nodes:
    """Collects the nodes of all trees, in the order of their numbers."""

    def __init__(self, columns: _Columns, n_outputs: int) -> None:
        self.columns, self.n_outputs = columns, n_outputs
        self.starts = [0]
        self.nodes: list[dict[str, Any]] = []

    def add_tree(self, root: Any) -> None:
        found: dict[int, dict[str, Any]] = {}
        waiting = [root]
        while waiting:
            node = waiting.pop()
            number = _node_number(node)
            if number in found:
                raise Malformed(f"one of its trees has node {number} twice")
            found[number] = node
            if "values" not in node:
                waiting += [node.get("right"), node.get("left")]
        if _node_number(root) != 0 or max(found) != len(found) - 1:
            raise Malformed("the nodes of one of its trees are not numbered from 0 at the root")
        first = self.starts[-1]
        self.nodes += [self._read(found[number], first) for number in range(len(found))]
        self.starts.append(len(self.nodes))

    def _read(self, node: dict[str, Any], first: int) -> dict[str, Any]:
        """Return a node in the forest's terms."""
        if "values" in node:
            _keys(node, {"node", "values"}, "leaves", {"weight", "coefficients"})
            return {"kind": LEAF, **node}
        if node.get("missing") not in ("left", "right"):
            raise Malformed(f"one of its splits sends missing values {_shown(node.get('missing'))}")
        made: dict[str, Any] = {
            "left": first + _node_number(node.get("left")),
            "right": first + _node_number(node.get("right")),
            "missing_left": node["missing"] == "left",
        }
        if "in" in node:
            _keys(node, _SPLIT | {"feature", "in"}, "category splits")
            column = self.columns.number(node["feature"])
            return {**made, "kind": CATEGORIES, "feature": column, "codes": self.columns.codes(column, node["in"])}
        if "weights" in node:
            _keys(node, _SPLIT | {"weights", "below"}, "oblique splits")
            pairs = [_pair(pair) for pair in _list(node["weights"], "weights")]
            weights = [(self.columns.number(name), _number(weight, "weights")) for name, weight in pairs]
            return {**made, "kind": OBLIQUE, "threshold": _number(node["below"], "thresholds"), "weights": weights}
        _keys(node, _SPLIT | {"feature", "below"}, "splits")
        column, threshold = self.columns.number(node["feature"]), _number(node["below"], "thresholds")
        return {**made, "kind": THRESHOLD, "feature": column, "threshold": threshold}

    def arrays(self) -> dict[str, Any]:
        """Return the arrays of a forest."""
        defaults = {"kind": LEAF, "left": -1, "right": -1, "feature": -1, "threshold": 0.0, "missing_left": False}
        result: dict[str, Any] = {
            name: [node.get(name, default) for node in self.nodes] for name, default in defaults.items()
        }
        result["missing_left"] = np.array(result["missing_left"], bool)
        result["tree_start"] = self.starts
        leaves = [node for node in self.nodes if node["kind"] == LEAF]
        values = [_numbers(leaf["values"], self.n_outputs, "values of a leaf") for leaf in leaves]
        result["leaf_values"] = np.array(values, np.float64).reshape(len(leaves), self.n_outputs)
        if _all_have(leaves, "weight"):
            result["leaf_weights"] = [_number(leaf["weight"], "weights of leaves") for leaf in leaves]
        if _all_have(leaves, "coefficients"):
            result["leaf_coef"] = self._coefficients(leaves)
        if any("codes" in node for node in self.nodes):
            codes = [node.get("codes", []) for node in self.nodes]
            result["category_start"] = np.cumsum([0, *map(len, codes)])
            result["category_codes"] = np.array([code for each in codes for code in each], np.int64)
        if any("weights" in node for node in self.nodes):
            weights = [node.get("weights", []) for node in self.nodes]
            result["weight_start"] = np.cumsum([0, *map(len, weights)])
            result["weight_feature"] = np.array([column for each in weights for column, _ in each], np.int64)
            result["weight_value"] = np.array([weight for each in weights for _, weight in each], np.float64)
        return result

    def _coefficients(self, leaves: list[dict[str, Any]]) -> Shaped[np.ndarray, "leaves features outputs"]:
        coef = np.zeros((len(leaves), len(self.columns.features), self.n_outputs))
        for leaf, row in zip(leaves, coef, strict=True):
            for name, values in map(_pair, _list(leaf["coefficients"], "coefficients")):
                row[self.columns.number(name)] = _numbers(values, self.n_outputs, "coefficients")
        return coef


def _node_number(node: Any) -> int:
    if not isinstance(node, dict) or type(node.get("node")) is not int or node["node"] < 0:
        raise Malformed("one of its nodes has no number")
    number: int = node["node"]
    return number


def _all_have(leaves: list[dict[str, Any]], key: str) -> bool:
    having = sum(key in leaf for leaf in leaves)
    if 0 < having < len(leaves):
        raise Malformed(f"only some of its leaves have a {key}")
    return having > 0


# ---------------------------------------------------------------- values


def _shown(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _keys(value: Any, needed: set[str], what: str, allowed: set[str] | None = None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Malformed(f"its {what}: {_shown(value)} is no object")
    wrong = sorted((needed - value.keys()) | (value.keys() - needed - (allowed or set())))
    if wrong:
        raise Malformed(f"its {what}: {_shown(wrong[0])} is " + ("missing" if wrong[0] in needed else "unknown"))
    return value


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise Malformed(f"its {what}: {_shown(value)} is no list")
    return value


def _pair(value: Any) -> list[Any]:
    if not isinstance(value, list) or len(value) != 2:
        raise Malformed(f"it has {_shown(value)} instead of a feature and its weights")
    return value


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise Malformed(f"its {what} is {_shown(value)} instead of a text")
    return value


def _number(value: Any, what: str) -> float:
    if value in ("inf", "-inf") or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return float(value)
    raise Malformed(f"its {what}: {_shown(value)} is no number")


def _numbers(value: Any, count: int, what: str) -> list[float]:
    if len(_list(value, what)) != count:
        raise Malformed(f"its {what}: {len(value)} numbers stand for {count}")
    return [_number(each, what) for each in value]


def _word(value: Any) -> str | int | float | bool:
    if isinstance(value, dict) and value in ({"float": "inf"}, {"float": "-inf"}):
        return float(value["float"])
    if not isinstance(value, (str, bool, int, float)):
        raise Malformed(f"its categories: {_shown(value)} is no text, number or boolean")
    return value


def _classes(described: Any) -> Shaped[np.ndarray, " classes"] | None:
    """Return class labels with the type that they had."""
    if described is None:
        return None
    _keys(described, {"dtype", "labels"}, "classes")
    kind, labels = _text(described["dtype"], "type of labels"), _list(described["labels"], "labels")
    if not _LABELS.fullmatch(kind):
        raise Malformed(f"its type of labels is {_shown(kind)}")
    if kind[0] == "f":
        labels = [_number(label, "labels") for label in labels]
    fits = {"U": str, "b": bool, "i": int, "u": int, "f": float}[kind[0]]
    for label in labels:
        if type(label) is not fits or (isinstance(label, str) and len(label) > int(kind[1:])):
            raise Malformed(f"its labels: {_shown(label)} is not of the type {kind}")
    return np.array(labels, kind)
