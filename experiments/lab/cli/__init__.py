"""The commands of the laboratory; importing them hangs them on `app.lab`."""

from . import ablation as ablation
from . import evaluate_spans as evaluate_spans
from . import few_shot as few_shot
from . import out_of_kb as out_of_kb
from . import projection as projection
from . import psytar_names as psytar_names
from . import sample as sample
from . import text_labels as text_labels
from . import text_split as text_split
from . import zero_shot as zero_shot
