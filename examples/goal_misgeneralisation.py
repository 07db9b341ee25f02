"""A policy that solves its environment for the wrong reason, seen in its tree (section 6.5 of the thesis).

    pip install "hardwood[rl]"
    python examples/goal_misgeneralisation.py           # some minutes; writes pictures to out/goal/

In DistShift an agent walks around lava to a goal that is always in the same corner. A tree that solves it need not have
learned to look for the goal, and its splits show whether it has. Goal and lava are then moved about: first only to
test, then in training.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from minigrid.core.world_object import Goal, Lava
from minigrid.envs import DistShiftEnv

from hardwood import Forest, draw, rl

OUT = Path("out/goal")


class MovedAbout(DistShiftEnv):
    """DistShift with the goal anywhere, and the lava in two rows of gaps that differ from episode to episode."""

    def _gen_grid(self, width: int, height: int) -> None:
        super()._gen_grid(width, height)
        for x in range(1, width - 1):
            for y in range(1, height - 1):
                self.grid.set(x, y, None)
        first = self._rand_int(2, width - 4)
        for row in (self._rand_int(1, height - 1), self._rand_int(1, height - 1)):
            for x in range(first, first + 3):
                if (x, row) != tuple(self.agent_start_pos):
                    self.grid.set(x, row, Lava())
        self.agent_pos, self.agent_dir = self.agent_start_pos, self.agent_start_dir
        free = [
            (x, y)
            for x in range(1, width - 1)
            for y in range(1, height - 1)
            if self.grid.get(x, y) is None and (x, y) != tuple(self.agent_pos)
        ]
        self.put_obj(Goal(), *free[self._rand_int(0, len(free))])


def moved_about(render_mode: str | None = None) -> Any:
    """Make the environment in which goal and lava are somewhere else each time."""
    return MovedAbout(render_mode=render_mode, agent_view_size=3)


# Columns and actions are chosen by the name.
moved_about.__name__ = "MiniGrid-DistShift-MovedAbout"


def in_use(agent: rl.Agent, env: Any, episodes: int) -> Forest:
    """Return the part of the agent's tree that some of its episodes pass: there it acts as the whole does."""
    assert agent.forest is not None
    rows = [rl.play(agent, env=env, seed=seed, frames=False).rows for seed in range(episodes)]
    return agent.forest.prune(np.concatenate(rows))


def looks_for(forest: Forest, thing: str) -> list[str]:
    """Return the columns about a thing that a tree splits on."""
    assert forest.feature_names is not None
    used = np.unique(forest.feature[forest.left >= 0])
    return [forest.feature_names[column] for column in used if forest.feature_names[column].startswith(thing)]


def report(name: str, agent: rl.Agent, env: Any, episodes: int) -> tuple[float, float]:
    """Say what the tree looks at, and in how many episodes it reaches the goal, here and moved about."""
    assert agent.forest is not None
    tree = in_use(agent, env, episodes)
    print(f"\n{name}: {agent.forest.node_count} nodes, of which its episodes pass these:\n{draw.text(tree)}")
    goal = looks_for(tree, "goal")
    print(f"It looks for the goal: {', '.join(goal)}." if goal else "It never looks for the goal.")
    solved = []
    for where, env in (("the goal where it always is", "MiniGrid-DistShift1-v0"), ("all moved about", moved_about)):
        rewards = agent.evaluate(episodes, seed=0, env=env)
        solved.append(float((rewards > 0).mean()))
        print(f"  {where}: reaches it in {solved[-1]:.0%} of {episodes} episodes, mean reward {rewards.mean():.3f}")
    return solved[0], solved[1]


def main() -> None:
    """Train, show, move things about, and train again."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100_000, help="of the first training")
    parser.add_argument("--more-steps", type=int, default=600_000, help="of the one with everything moved about")
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)

    first = rl.train("MiniGrid-DistShift1-v0", seed=given.seed, steps=given.steps)
    report("trained with the goal in its corner", first, "MiniGrid-DistShift1-v0", given.episodes)
    rl.play(first, seed=0, most_steps=40).save(given.out / "trained.png")
    rl.play(first, env=moved_about, seed=1, most_steps=40).save(given.out / "moved_about.png")

    second = rl.train(moved_about, seed=given.seed, steps=given.more_steps)
    report("trained with everything moved about", second, moved_about, given.episodes)
    rl.play(second, env=moved_about, seed=1, most_steps=40).save(given.out / "retrained.png")
    print(f"\nEpisodes, frame by frame beside the tree: {given.out}/*.png")


if __name__ == "__main__":
    main()
