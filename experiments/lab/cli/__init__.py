"""The commands of the laboratory; importing this registers them on `app.lab`."""

from . import campaign as campaign
from . import data_sets as data_sets
from . import genes as genes
from . import measure as measure
from . import sources as sources
