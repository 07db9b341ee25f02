"""The package as a whole: a light import, names that resolve, docstring examples that run, a version said once."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import hardwood

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path(hardwood.__file__).parent
ROOMS = [name for name in hardwood.__all__ if (SOURCE / name).is_dir()]


def module_names() -> list[str]:
    return ["hardwood", *(module.name for module in pkgutil.walk_packages([str(SOURCE)], "hardwood."))]


def loaded_by(statement: str) -> set[str]:
    """Return the top-level packages that a fresh interpreter has loaded after `statement`."""
    program = f"import sys; {statement}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    path = f"import sys; sys.path.insert(0, {str(SOURCE.parent)!r}); "
    done = subprocess.run([sys.executable, "-c", path + program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


HEAVY = {
    "click",
    "jaxtyping",
    "lightgbm",
    "matplotlib",
    "narwhals",
    "numba",
    "onnx",
    "pandas",
    "rich",
    "safetensors",
    "scipy",
    "sklearn",
    "shap",
    "torch",
    "treelite",
    "triton",
    "xgboost",
}


def test_import_is_light():
    assert not loaded_by("import hardwood") & (HEAVY | {"numpy"})


@pytest.mark.parametrize("room", ["forest", "draw", "explain", "export"])
def test_reading_rooms_need_only_numpy_to_import(room: str):
    # jaxtyping is there in development only; it looks at what is loaded and loads nothing itself.
    assert not loaded_by(f"import hardwood.{room}") & (HEAVY - {"jaxtyping"})


def test_public_names_resolve():
    for name in hardwood.__all__:
        assert getattr(hardwood, name) is not None
    assert set(hardwood.__all__) <= set(dir(hardwood))


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_reexport_their_public_names(room: str):
    module = importlib.import_module(f"hardwood.{room}")
    for name in getattr(module, "__all__", []):
        assert hasattr(module, name)


def test_unknown_name():
    with pytest.raises(AttributeError, match="no attribute 'forrest'"):
        _ = hardwood.forrest


def test_version_is_said_once_and_recorded():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert ROOT / project["tool"]["hatch"]["version"]["path"] == SOURCE / "__init__.py"
    assert f"\n## {hardwood.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    cited = re.search(r'^version: "?([^"\n]+)', (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited is not None
    assert cited[1] == hardwood.__version__


def test_types_are_shipped():
    assert (SOURCE / "py.typed").is_file()


def test_every_package_is_pinned():
    """`constraints.txt` pins each dependency of the core and of the development extra, exactly and without a suffix."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.lower().split("==") for line in lines if not line.startswith("#"))
    assert pins["torch"] == "2.13.0"
    assert not [pin for pin in pins.values() if "+" in pin]
    wanted = project["dependencies"] + project["optional-dependencies"]["dev"]
    assert not [name for name in wanted if re.split(r"[><=\[; ]", name)[0].lower() not in pins]


@pytest.mark.parametrize("name", module_names())
def test_docstring_examples(name: str):
    if "_cuda" in name and importlib.util.find_spec("triton") is None:
        pytest.skip("the Triton kernels are read only where Triton is installed")
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    assert result.failed == 0
