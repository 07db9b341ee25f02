"""GET: a single oblique tree optimised whole. Algorithm 1 (`search`), Algorithm 2 (polish), depth by validation.

It is a room of its own because it is a search around many trainings rather than one: starts, scale factors and
subtrees each descend for a while, are judged as hard trees, and the best goes on. The loop of `train` is about one
model whose relaxed and hard answers are the same.
"""

from hardwood.oblique._run import Run as Run
from hardwood.oblique._search import search as search
from hardwood.oblique._select import choose as choose
from hardwood.oblique._settings import GetSettings as GetSettings
from hardwood.oblique._sparsify import sparsify as sparsify
from hardwood.oblique._task import Problems as Problems
from hardwood.oblique._task import Task as Task
