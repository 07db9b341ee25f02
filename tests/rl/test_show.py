"""Episodes on film."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from hardwood import rl
from hardwood.errors import InvalidArgumentError


def test_frames_show_the_environment_and_the_path(cartpole: rl.Agent, tmp_path):
    episode = rl.play(cartpole, seed=0, most_steps=6)
    assert len(episode.frames) == 7 and len(episode.actions) == 6
    assert set(episode.actions) <= {"push left", "push right"}
    plain = rl.play(cartpole, seed=0, most_steps=6, tree=False)
    np.testing.assert_array_equal(plain.rows, episode.rows)
    height, width = plain.frames[0].shape[:2]
    np.testing.assert_array_equal(episode.frames[3][:height, :width], plain.frames[3])
    trees = [frame[:, width:] for frame in episode.frames]
    assert cartpole.forest is not None
    leaves = cartpole.forest.apply(episode.rows)[:, 0]
    same = {(i, j) for i in range(6) for j in range(6) if leaves[i] == leaves[j]}
    for i, j in same:
        np.testing.assert_array_equal(trees[i], trees[j])
    assert not np.array_equal(trees[0], trees[6])  # after the last step no path is dark

    episode.save(tmp_path / "episode.gif")
    with Image.open(tmp_path / "episode.gif") as film:
        assert film.size == (episode.frames[0].shape[1], episode.frames[0].shape[0])
        assert film.n_frames >= 2  # frames that are alike are joined
    episode.save(tmp_path / "strip.png")
    with Image.open(tmp_path / "strip.png") as strip:
        assert strip.size[0] > 2 * episode.frames[0].shape[1]
    with pytest.raises(InvalidArgumentError, match=r"is neither \.gif nor \.png"):
        episode.save(tmp_path / "episode.mp4")
    unseen = rl.play(cartpole, seed=0, frames=False, most_steps=6)
    np.testing.assert_array_equal(unseen.rows, episode.rows)
    with pytest.raises(InvalidArgumentError, match="played without frames"):
        unseen.save(tmp_path / "episode.gif")
