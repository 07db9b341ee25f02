"""Tree policies learned on-policy (SYMPOL), and what they are compared with.

from hardwood import rl

agent = rl.train("CartPole-v1", steps=200_000, seed=0)
agent.evaluate(episodes=25)
agent.forest          # the policy itself, as a hard tree on raw observations
agent.save("cartpole")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardwood.rl._actions import Actions as Actions
    from hardwood.rl._agent import Agent as Agent
    from hardwood.rl._agent import InformationLoss as InformationLoss
    from hardwood.rl._agent import load_agent as load_agent
    from hardwood.rl._distil import derive as derive
    from hardwood.rl._encoders import Encoder as Encoder
    from hardwood.rl._encoders import FlagEncoder as FlagEncoder
    from hardwood.rl._encoders import GridEncoder as GridEncoder
    from hardwood.rl._encoders import NumberEncoder as NumberEncoder
    from hardwood.rl._environments import Environments as Environments
    from hardwood.rl._evaluate import cohens_d as cohens_d
    from hardwood.rl._policy import MLPPolicy as MLPPolicy
    from hardwood.rl._policy import Policy as Policy
    from hardwood.rl._policy import SoftTreePolicy as SoftTreePolicy
    from hardwood.rl._policy import TreePolicy as TreePolicy
    from hardwood.rl._run import Progress as Progress
    from hardwood.rl._scale import Scale as Scale
    from hardwood.rl._settings import Settings as Settings
    from hardwood.rl._show import Episode as Episode
    from hardwood.rl._show import play as play
    from hardwood.rl._train import train as train

# Public name -> the module that holds it, imported on first use.
_HOMES = {
    "Actions": "_actions",
    "Agent": "_agent",
    "Encoder": "_encoders",
    "Environments": "_environments",
    "Episode": "_show",
    "FlagEncoder": "_encoders",
    "GridEncoder": "_encoders",
    "InformationLoss": "_agent",
    "MLPPolicy": "_policy",
    "NumberEncoder": "_encoders",
    "Policy": "_policy",
    "Progress": "_run",
    "Scale": "_scale",
    "Settings": "_settings",
    "SoftTreePolicy": "_policy",
    "TreePolicy": "_policy",
    "cohens_d": "_evaluate",
    "derive": "_distil",
    "load_agent": "_agent",
    "play": "_show",
    "train": "_train",
}

__all__ = [
    "Actions",
    "Agent",
    "Encoder",
    "Environments",
    "Episode",
    "FlagEncoder",
    "GridEncoder",
    "InformationLoss",
    "MLPPolicy",
    "NumberEncoder",
    "Policy",
    "Progress",
    "Scale",
    "Settings",
    "SoftTreePolicy",
    "TreePolicy",
    "cohens_d",
    "derive",
    "load_agent",
    "play",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hardwood.rl' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"hardwood.rl.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
