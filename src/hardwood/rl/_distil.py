"""Trees made after training from what was trained: the baselines that lose something on the way.

SA-DT imitates a network on its own episodes; VIPER (Q-DAgger) goes on to label the states that the tree itself visits,
and prefers those where a wrong action costs most; D-SDT reads one axis-aligned split off each node of a soft tree.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hardwood._typing import Float, Shaped
from hardwood.errors import reject
from hardwood.forest import Forest, from_sklearn
from hardwood.rl._acting import Actor, ForestActor
from hardwood.rl._agent import Agent
from hardwood.rl._environments import Environments
from hardwood.rl._policy import Policy, SoftTreePolicy, forest_of_tree

# What is made, and what it is made from.
DERIVED = {"sa-dt": "mlp", "viper": "mlp", "d-sdt": "soft-tree"}
_EPISODES = 25  # of the expert (E.4)
_MOST_STEPS = 2_000  # of an episode that does not end


def derive(
    agent: Agent,
    kind: str,
    depth: int | None = None,
    *,
    rounds: int = 10,
    seed: int = 0,
    env: Any = None,
    backend: str = "auto",
) -> Agent:
    """Return the agent of a tree made from a trained one: "sa-dt", "viper" (in some rounds) or "d-sdt"."""
    if kind not in DERIVED:
        reject("kind", kind, "is not known", "choose one of " + ", ".join(map(repr, DERIVED)))
    if agent.policy is None or agent.policy.kind != DERIVED[kind]:
        reject("agent", agent.kind, f"{kind!r} is made from {DERIVED[kind]!r}", "train one of those first")
    if kind == "d-sdt":
        assert isinstance(agent.policy, SoftTreePolicy)
        tree = agent.policy.discretised()
        forest = forest_of_tree(tree, agent.actions, agent.encoder.names, agent.encoder.is_flag)
        return replace(agent, kind=kind, forest=forest)
    depth = 5 if depth is None else depth
    if depth < 1:
        reject("depth", depth, "must be at least 1", "the thesis has 5 and 8")
    if rounds < 1:
        reject("rounds", rounds, "must be at least 1", "use 10")
    if kind == "viper" and not agent.actions.is_discrete:
        reject("policy", kind, "VIPER is for discrete actions", 'use policy="sa-dt"')
    codes = agent.actions.codes or None
    environments = Environments(
        agent.env if env is None else env, _EPISODES, seed + 1, backend=backend, encoder=agent.encoder, actions=codes
    )  # fmt: skip
    try:
        rng = np.random.default_rng(seed)
        if kind == "viper":
            forest = _viper(agent, agent.policy, environments, depth, rounds, rng)
        else:
            forest = _imitate(agent, agent.policy, environments, depth, rng)
    finally:
        environments.close()
    return replace(agent, kind=kind, forest=forest, about={**agent.about, "distilled_depth": depth})


def _imitate(
    agent: Agent, policy: Policy, environments: Environments, depth: int, rng: np.random.Generator
) -> Forest:  # fmt: skip
    """Behaviour cloning: one greedy tree on the expert's own episodes."""
    expert = policy.actor()
    rows, _ = _visited(environments, expert)
    return _fit(agent, rows, expert.greedy(rows), depth, rng)


def _viper(
    agent: Agent, policy: Policy, environments: Environments, depth: int, rounds: int, rng: np.random.Generator
) -> Forest:  # fmt: skip
    """Q-DAgger (Bastani et al., 2018), with the expert's log probabilities in the place of its Q-values.

    A state weighs as much as the best action's log probability exceeds the worst one's. Of the trees of all rounds, the
    one with the best reward is returned.
    """
    expert = policy.actor()
    rows, _ = _visited(environments, expert)
    best, best_reward = None, -np.inf
    for _ in range(rounds):
        outputs = expert.outputs(rows)
        weight = outputs.max(1) - outputs.min(1)
        drawn = rng.choice(len(rows), len(rows), p=weight / weight.sum()) if weight.sum() > 0 else np.arange(len(rows))
        forest = _fit(agent, rows[drawn], expert.greedy(rows[drawn]), depth, rng)
        seen, reward = _visited(environments, ForestActor(agent.actions, forest))
        rows = np.concatenate([rows, seen])
        if best is None or reward > best_reward:
            best, best_reward = forest, reward
    assert best is not None
    return best


def _visited(environments: Environments, actor: Actor) -> tuple[Float[np.ndarray, "rows columns"], float]:
    """Return the states of one greedy episode in each environment, and the mean reward of those."""
    rows = environments.reset()
    running = np.ones(environments.n_envs, bool)
    seen, total = [], 0.0
    for _ in range(_MOST_STEPS):
        seen.append(rows[running])
        step = environments.step(actor.greedy(rows))
        rows = step.rows
        total += float(step.rewards[running].sum())
        running &= ~(step.terminated | step.truncated)
        if not running.any():
            break
    return np.concatenate(seen), total / environments.n_envs


def _fit(
    agent: Agent,
    rows: Float[np.ndarray, "rows columns"],
    chosen: Shaped[np.ndarray, "..."],
    depth: int,
    rng: np.random.Generator,
) -> Forest:
    """Fit scikit-learn's greedy tree and return it as a forest with all of the environment's actions."""
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    seed = int(rng.integers(2**31))
    actions = agent.actions
    if not actions.is_discrete:
        regressor = DecisionTreeRegressor(max_depth=depth, random_state=seed).fit(rows, chosen)
        forest = from_sklearn(regressor)
        return replace(forest, feature_names=agent.encoder.names, output_names=actions.names).prune()
    classifier = DecisionTreeClassifier(max_depth=depth, random_state=seed).fit(rows, chosen)
    forest = from_sklearn(classifier)
    # Actions that the expert never took have no share anywhere.
    values = np.zeros((forest.n_leaves, actions.n_outputs))
    shares = forest.leaf_values
    if shares.shape[1] == 1 and len(classifier.classes_) == 2:
        shares = np.concatenate([1 - shares, shares], 1)
    values[:, classifier.classes_] = shares
    return replace(
        forest, leaf_values=values, classes=np.array(actions.names), feature_names=agent.encoder.names, link="identity"
    ).prune()  # fmt: skip
