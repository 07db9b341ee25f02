"""Proximal policy optimisation, from the first step to the last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from hardwood.rl._schedule import rollout_growth

if TYPE_CHECKING:
    from hardwood.rl._run import Run


def ppo(run: Run) -> None:
    """Train until the steps are used up, or until `run` says that it is enough (Schulman et al., 2017)."""
    settings, policy, critic = run.settings, run.policy, run.critic
    while not run.is_over:
        # The rollout, and with it the batch, grows by stages (Equation 6.7).
        growth = rollout_growth(run.steps_done, settings.steps, settings.growth)
        batch_size = settings.batch_size * growth
        entropy_weight = run.entropy_weight

        # Act. Values are computed for the whole rollout at once.
        experience = run.collect(settings.rollout_steps * growth)

        # Learn: several passes through the rollout, in shuffled batches of about equal size.
        with run.updating():
            n_rows = len(experience.returns)
            n_batches = max(1, round(n_rows / batch_size))
            drift = 0.0
            for _ in range(settings.epochs):
                if settings.target_kl is not None and drift > settings.target_kl:
                    break  # the policy is far from the one that acted; a tree gets there in jumps
                drift = 0.0
                order = torch.from_numpy(run.rng.permutation(n_rows))
                for batch in order.tensor_split(n_batches):
                    run.optimizer.zero_grad()
                    advantages = experience.advantages[batch]
                    if settings.normalise_advantages and len(batch) > 1:
                        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
                    # A batch that is too large for memory is taken in parts whose gradients add up to its own.
                    for first in range(0, len(batch), settings.accumulate):
                        part = batch[first : first + settings.accumulate]
                        advantage = advantages[first : first + len(part)]
                        scaled, chosen = experience.scaled[part], experience.chosen[part]
                        log_prob, entropy = policy.evaluate(scaled, chosen)
                        moved = log_prob - experience.log_probs[part]
                        ratio = torch.exp(moved)
                        clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)
                        gain = torch.minimum(ratio * advantage, clipped * advantage).mean()
                        error = (critic(scaled)[:, 0] - experience.returns[part]).square().mean()
                        loss = settings.value_weight * 0.5 * error - gain - entropy_weight * entropy
                        (loss * (len(part) / len(batch))).backward()
                        if settings.target_kl is not None:
                            # Always at least 0, and the Kullback-Leibler divergence in the mean.
                            share = len(part) / n_rows
                            drift += share * float((ratio - 1 - moved).detach().mean())
                    run.step(loss)

        # Try the greedy policy now and then, keep the best, lower the rates where the reward stalls.
        run.finish_iteration()
