"""What every test runs under: annotations are checked, examples repeat, and the process is left as it was found."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

# Several test processes share the cores: a thread that waits for another must not spin. torch reads this when it loads.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

_NOT_CHECKED = ""

# The hook has to stand before the first import of hardwood: it wraps each function as its module is loaded.
try:
    from jaxtyping import install_import_hook

    import helpers.annotations
except ImportError as missing:
    _NOT_CHECKED = f"ANNOTATIONS ARE NOT CHECKED in this run: {missing}. Install hardwood[dev] to check them."
else:
    install_import_hook("hardwood", f"{helpers.annotations.__name__}.check")

try:
    from hypothesis import HealthCheck, settings
except ImportError:
    pass
else:
    # A kernel's first call compiles, so no example has a deadline.
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    settings.register_profile("dev", deadline=None, suppress_health_check=slow)
    settings.register_profile("ci", deadline=None, suppress_health_check=slow, derandomize=True, print_blob=True)
    settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_report_header() -> str | None:
    """Say loudly, at the top of the run, that annotations go unchecked."""
    return _NOT_CHECKED or None


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """And again at its end, where it is read."""
    if _NOT_CHECKED:
        terminalreporter.section("NOTICE", red=True, bold=True)
        terminalreporter.line(_NOT_CHECKED)


def _settings() -> dict[str, object]:
    """The process-wide settings of torch that a library must not change."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    return {
        "torch.get_default_dtype()": torch.get_default_dtype(),
        "torch.get_num_threads()": torch.get_num_threads(),
        "torch.is_grad_enabled()": torch.is_grad_enabled(),
        "torch.are_deterministic_algorithms_enabled()": torch.are_deterministic_algorithms_enabled(),
    }


@pytest.fixture(autouse=True)
def process_settings_stay() -> Iterator[None]:
    """Fail a test after which a process-wide setting of torch is another than before."""
    before = _settings()
    yield
    after = _settings()
    changed = [f"{name}: {value} -> {after[name]}" for name, value in before.items() if after[name] != value]
    assert not changed, f"process-wide settings changed: {changed}"


def _random_states() -> dict[str, bytes]:
    """Digest the state of the process-wide random generators."""
    name, keys, position, _, _ = np.random.get_state()  # noqa: NPY002
    # Python's own generator is left out: beartype draws from it to pick which item of a list it checks.
    states = {"numpy.random": f"{name}{position}".encode() + keys.tobytes()}
    torch = sys.modules.get("torch")
    if torch is not None:
        states["torch"] = torch.get_rng_state().numpy().tobytes()
    return states


@pytest.fixture
def random_state_stays() -> Iterator[None]:
    """Fail a test after which a process-wide random generator has been reseeded or drawn from.

    A test of code that must not touch them asks for this fixture and uses generators of its own.
    """
    before = _random_states()
    yield
    after = _random_states()
    changed = [name for name, state in before.items() if after[name] != state]
    assert not changed, f"process-wide random generators were touched: {changed}"
