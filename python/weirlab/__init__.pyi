from weirlab.scripting import assess as assess
from weirlab.scripting import charts as charts
from weirlab.scripting import command as command
from weirlab.scripting import fit as fit
from weirlab.scripting import open_run as open_run
from weirlab.scripting import plan as plan
from weirlab.scripting import predict as predict
from weirlab.scripting import profile as profile
from weirlab.scripting import resume as resume
from weirlab.scripting import run as run
from weirlab.scripting import runs as runs
from weirlab.scripting import thresholds as thresholds

__version__: str
