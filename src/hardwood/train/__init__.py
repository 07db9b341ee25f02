"""One training loop for every supervised model."""

from hardwood.train._batches import Batches as Batches
from hardwood.train._batches import draw_tree_rows as draw_tree_rows
from hardwood.train._callbacks import Callback as Callback
from hardwood.train._callbacks import TrainingState as TrainingState
from hardwood.train._classification_losses import CrossEntropy as CrossEntropy
from hardwood.train._classification_losses import MultiLabel as MultiLabel
from hardwood.train._errors import CheckpointError as CheckpointError
from hardwood.train._errors import TrainingDivergedError as TrainingDivergedError
from hardwood.train._errors import TrainingWarning as TrainingWarning
from hardwood.train._history import History as History
from hardwood.train._history import HistoryRecord as HistoryRecord
from hardwood.train._loop import fit as fit
from hardwood.train._losses import CustomLoss as CustomLoss
from hardwood.train._losses import Loss as Loss
from hardwood.train._losses import make_loss as make_loss
from hardwood.train._progress import ProgressBar as ProgressBar
from hardwood.train._regression_losses import AbsoluteError as AbsoluteError
from hardwood.train._regression_losses import Huber as Huber
from hardwood.train._regression_losses import Poisson as Poisson
from hardwood.train._regression_losses import Quantile as Quantile
from hardwood.train._regression_losses import SquaredError as SquaredError
from hardwood.train._regression_losses import Tweedie as Tweedie
from hardwood.train._result import TrainingResult as TrainingResult
from hardwood.train._settings import TrainingSettings as TrainingSettings
from hardwood.train._weights import class_factors as class_factors
