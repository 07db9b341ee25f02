"""Advantage actor-critic, from the first step to the last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hardwood.rl._schedule import rollout_growth

if TYPE_CHECKING:
    from hardwood.rl._run import Run


def a2c(run: Run) -> None:
    """Train until the steps are used up, or until `run` says that it is enough (Mnih et al., 2016).

    There is one update for each rollout, over all of it (E.2.1).
    """
    settings, policy, critic = run.settings, run.policy, run.critic
    while not run.is_over:
        growth = rollout_growth(run.steps_done, settings.steps, settings.growth)
        experience = run.collect(settings.rollout_steps * growth)
        with run.updating():
            advantages = experience.advantages
            if settings.normalise_advantages and len(advantages) > 1:
                advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
            run.optimizer.zero_grad()
            log_prob, entropy = policy.evaluate(experience.scaled, experience.chosen)
            error = (critic(experience.scaled)[:, 0] - experience.returns).square().mean()
            gain = (log_prob * advantages).mean()
            loss = settings.value_weight * 0.5 * error - gain - run.entropy_weight * entropy
            loss.backward()
            run.step(loss)
        run.finish_iteration()
