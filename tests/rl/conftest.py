"""One short training, shared by all tests that need a trained agent."""

from __future__ import annotations

import pytest

from hardwood import rl


@pytest.fixture(scope="session")
def cartpole() -> rl.Agent:
    """A tree that balances the pole, learned in some seconds."""
    return rl.train("CartPole-v1", seed=1, steps=200_000, target_kl=None, validations=60, target=490)
