"""Python in a process of its own: without the test run's import hook, and free to crash."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

_TESTS = Path(__file__).parent.parent


def run_python(code: str) -> str:
    """Run code that can import hardwood and the helpers; fail with its output unless it ends well."""
    paths = [str(_TESTS.parent / "src"), str(_TESTS)]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
