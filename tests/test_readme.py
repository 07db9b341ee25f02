"""The README's Python is run, block after block, in one namespace, as a reader would type it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_python_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    page = README.read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(page))
    assert blocks
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "readme"}
    for block in blocks:
        # Blank lines put the code where it stands in the README, so that a traceback names its line.
        above = "\n" * page.count("\n", 0, block.start(1))
        exec(compile(above + block[1], str(README), "exec"), namespace)


def test_links_to_files_lead_somewhere():
    page = README.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#]+)\)", page) + re.findall(r'src="([^"]+)"', page)
    local = [target for target in targets if "://" not in target]
    assert local
    assert not [target for target in local if not (README.parent / target).exists()]
