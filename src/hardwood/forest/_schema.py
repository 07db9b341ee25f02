"""What a stored forest must look like: the JSON document and the arrays beside it, checked by hand.

The document holds everything of a `Forest` that is not an array. Its values are plain JSON; a vocabulary value that
JSON has no number for (an infinity) is written `{"float": "inf"}`. Class labels are one more array; text labels are
stored as their code points, as wide as the labels' dtype, so that both come back exactly.

Everything here refuses with `Malformed` and trusts nothing: the document may come from somebody who wants a crash.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any, NoReturn, get_args

import numpy as np

from hardwood._typing import Shaped
from hardwood.errors import reject
from hardwood.forest._canonical import ARRAYS, OPTIONAL
from hardwood.forest._forest import Combine, FeatureType, Forest, Link

Arrays = dict[str, Any]  # name -> NumPy array

FORMAT = "hardwood forest"
VERSION = 1

_DOCUMENT_KEYS = {"checksum", "format", "schema_version", "forest", "arrays"}
_FOREST_KEYS = {"n_features", "combine", "link", "feature_names", "feature_types", "categories"}
_FOREST_KEYS |= {"classes", "output_names"}
_NUMBER_LABELS = {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
_NUMBER_LABELS |= {"float16", "float32", "float64"}
_LONGEST_INTEGER = 640  # digits; more than this Python may be set to refuse
_MOST_FEATURES = 2**31 - 1  # columns are int32

FOREIGN = "pass a file that Forest.save wrote"
ALTERED = "copy it again from where it came, or save the forest again"


class Malformed(Exception):
    """A stored forest is not as it must be. The argument says how; `remedy` says what the reader can do."""

    def __init__(self, reason: str, remedy: str = ALTERED) -> None:
        super().__init__(reason)
        self.remedy = remedy


# ---------------------------------------------------------------- strict JSON


def read_json(text: str) -> Any:
    """Parse JSON as the standard has it: no NaN, no number beyond float64, no key twice, no bottomless nesting."""
    try:
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_float=_float,
            parse_int=_integer,
            parse_constant=_constant,
        )
    except RecursionError:
        raise Malformed("its JSON is nested too deeply") from None
    except ValueError as error:
        raise Malformed(f"its JSON cannot be read ({error})") from None


def write_json(document: Any) -> str:
    """Write JSON that `read_json` reads back to equal values of equal types."""
    return json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise Malformed("its JSON has a key twice")
    return result


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise Malformed("its JSON has a number beyond float64")
    return value


def _integer(digits: str) -> int:
    if len(digits) > _LONGEST_INTEGER:
        raise Malformed("its JSON has an integer of hundreds of digits")
    return int(digits)


def _constant(name: str) -> NoReturn:
    raise Malformed(f"its JSON has the constant {name}")


# ---------------------------------------------------------------- forest -> document


def describe(forest: Forest) -> tuple[dict[str, Any], Arrays]:
    """Split a forest into its JSON document (all but the checksum) and its arrays by name."""
    if forest.n_features > _MOST_FEATURES:
        reject("n_features", forest.n_features, "cannot be stored", f"keep it at most {_MOST_FEATURES}")
    arrays: Arrays = {name: getattr(forest, name) for name in ARRAYS if getattr(forest, name) is not None}
    if forest.classes is not None:
        arrays["classes"] = _labels_to_array(forest.classes)
    document = {
        "format": FORMAT,
        "schema_version": VERSION,
        "forest": {
            "n_features": forest.n_features,
            "combine": forest.combine,
            "link": forest.link,
            "feature_names": None if forest.feature_names is None else list(forest.feature_names),
            "feature_types": None if forest.feature_types is None else list(forest.feature_types),
            "categories": [
                [column, [_category_to_json(column, value) for value in values]]
                for column, values in forest.categories.items()
            ],
            "classes": None if forest.classes is None else _label_kind(forest.classes),
            "output_names": None if forest.output_names is None else list(forest.output_names),
        },
        "arrays": {name: {"dtype": arrays[name].dtype.name, "shape": list(arrays[name].shape)} for name in arrays},
    }
    return document, arrays


def _label_kind(labels: Shaped[np.ndarray, " classes"]) -> str:
    return "text" if labels.dtype.kind == "U" else "numbers"


def _labels_to_array(labels: Shaped[np.ndarray, " classes"]) -> Shaped[np.ndarray, "..."]:
    if labels.dtype.kind == "U":
        return np.ascontiguousarray(labels).view(np.uint32).reshape(len(labels), -1)
    if labels.dtype.name not in _NUMBER_LABELS:
        reject("classes", labels.dtype, "is a dtype that a file cannot hold", "convert the labels to float64")
    return labels


def _category_to_json(column: int, value: str | int | float | bool) -> Any:
    if isinstance(value, float) and math.isinf(value):
        return {"float": repr(value)}
    if isinstance(value, int) and value.bit_length() > 3 * _LONGEST_INTEGER:
        problem = "has an integer of hundreds of digits"
        reject(f"categories[{column}]", hex(value), problem, "name that category by a text instead")
    return value


# ---------------------------------------------------------------- document -> forest


def check_version(document: Any) -> None:
    """Refuse a document of another kind or from a newer version; it can be read before anything else is known."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise Malformed("it holds something else than a forest", FOREIGN)
    version = document.get("schema_version")
    if type(version) is not int or version < 1:
        raise Malformed(f"its schema version is {version!r}")
    if version > VERSION:
        newer = f"its schema version is {version}, and this hardwood reads up to {VERSION}"
        raise Malformed(newer, "upgrade hardwood (pip install --upgrade hardwood)")


def fields_of(document: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
    """Check the document and the arrays against the schema; return what `Forest` takes as its fields."""
    _keys(document, _DOCUMENT_KEYS, "document")
    stored = document["forest"]
    _keys(stored, _FOREST_KEYS, "forest")
    _check_arrays(document["arrays"], arrays, stored["classes"])
    n_features = stored["n_features"]
    if type(n_features) is not int or not 1 <= n_features <= _MOST_FEATURES:
        raise Malformed(f"its n_features is {_shown(n_features)}")
    return {
        **{name: arrays.get(name) for name in ARRAYS},
        "n_features": n_features,
        "combine": _one_of(stored["combine"], get_args(Combine), "combine"),
        "link": _one_of(stored["link"], get_args(Link), "link"),
        "feature_names": _texts(stored["feature_names"], "feature_names"),
        "feature_types": _texts(stored["feature_types"], "feature_types", get_args(FeatureType)),
        "categories": _categories(stored["categories"]),
        "classes": _labels(stored["classes"], arrays.get("classes")),
        "output_names": _texts(stored["output_names"], "output_names"),
    }


def _shown(value: Any) -> str:
    text = "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else ascii(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _keys(value: Any, wanted: set[str], what: str) -> None:
    if not isinstance(value, dict):
        raise Malformed(f"its {what} is {_shown(value)} instead of an object")
    if value.keys() != wanted:
        wrong = sorted(value.keys() ^ wanted)[0]
        raise Malformed(f"its {what} " + (f"lacks {wrong!r}" if wrong in wanted else f"has {_shown(wrong)} in it"))


def _check_arrays(listed: Any, arrays: Arrays, classes: Any) -> None:
    """Check that the arrays are those of a forest, and exactly those that the document lists."""
    if not isinstance(listed, dict):
        raise Malformed("its list of arrays is not an object")
    for name in sorted(listed.keys() | arrays.keys() | (ARRAYS.keys() - OPTIONAL)):
        if name not in arrays:
            raise Malformed(f"its array {_shown(name)} is missing")
        if name not in ARRAYS and name != "classes":
            raise Malformed(f"no forest has an array {_shown(name)}")
        found = arrays[name]
        if listed.get(name) != {"dtype": found.dtype.name, "shape": list(found.shape)}:
            raise Malformed(f"its array {name!r} is not as its document says")
        if name in ARRAYS and (found.dtype, found.ndim) != (np.dtype(ARRAYS[name][0]), ARRAYS[name][1]):
            raise Malformed(f"its array {name!r} is {found.dtype.name} with {found.ndim} axes")
    if (classes is None) == ("classes" in arrays):
        raise Malformed("its class labels are incomplete")


def _one_of(value: Any, allowed: tuple[str, ...], what: str) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise Malformed(f"its {what} is {_shown(value)}")
    return value


def _texts(value: Any, what: str, allowed: tuple[str, ...] | None = None) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise Malformed(f"its {what} are {_shown(value)} instead of a list")
    for entry in value:
        if not isinstance(entry, str) or (allowed is not None and entry not in allowed):
            raise Malformed(f"its {what} have {_shown(entry)} among them")
    if allowed is None and len(set(value)) != len(value):
        raise Malformed(f"its {what} have an entry twice")
    return tuple(value)


def _categories(value: Any) -> dict[int, tuple[str | int | float | bool, ...]]:
    if not isinstance(value, list):
        raise Malformed("its categories are not a list")
    result = {}
    for pair in value:
        if not isinstance(pair, list) or len(pair) != 2 or type(pair[0]) is not int or not isinstance(pair[1], list):
            raise Malformed("its categories are not pairs of a column and a list")
        if pair[0] in result:
            raise Malformed(f"its categories have column {pair[0]} twice")
        result[pair[0]] = tuple(_category(entry) for entry in pair[1])
    return result


def _category(value: Any) -> str | int | float | bool:
    if isinstance(value, dict) and value in ({"float": "inf"}, {"float": "-inf"}):
        return float(value["float"])
    if not isinstance(value, (str, bool, int, float)):
        raise Malformed(f"its categories have {_shown(value)} among them")
    return value


def _labels(kind: Any, stored: Shaped[np.ndarray, "..."] | None) -> Shaped[np.ndarray, " classes"] | None:
    if stored is None:
        return None
    if kind == "numbers" and stored.ndim == 1 and stored.dtype.name in _NUMBER_LABELS:
        return stored
    if kind != "text" or stored.dtype != np.uint32 or stored.ndim != 2 or 0 in stored.shape:
        raise Malformed(f"its class labels are {_shown(kind)} in an array of {stored.dtype.name}")
    if int(stored.max()) > sys.maxunicode:
        raise Malformed("its class labels have a character that does not exist")
    native = np.ascontiguousarray(stored.astype(np.uint32))
    return native.view(f"U{stored.shape[1]}").reshape(len(stored))
