"""The commands of `python -m spacy krissel`; importing them hangs them on `app.krissel`."""

from . import calibrate as calibrate
from . import convert as convert
from . import encoder as encoder
from . import evaluate as evaluate
from . import extract as extract
from . import link as link
from . import mine as mine
from . import ontology as ontology
from . import prototypes as prototypes
from . import text_labels as text_labels
from . import train as train
from . import tune as tune
