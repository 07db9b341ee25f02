"""A forest explained: one prediction in words, a tree as rules, and which columns matter.

Everything here reads only a `Forest`.
"""

from hardwood.explain._conditions import Condition as Condition
from hardwood.explain._contributions import Contributions as Contributions
from hardwood.explain._contributions import contributions as contributions
from hardwood.explain._explanation import Explanation as Explanation
from hardwood.explain._explanation import Reason as Reason
from hardwood.explain._importances import importances as importances
from hardwood.explain._permutation import PermutationImportances as PermutationImportances
from hardwood.explain._permutation import permutation_importances as permutation_importances
from hardwood.explain._row import row as row
from hardwood.explain._row import rows as rows
from hardwood.explain._rules import Rule as Rule
from hardwood.explain._rules import Rules as Rules
from hardwood.explain._rules import rules as rules
