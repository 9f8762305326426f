"""What a method is and what it meets: everything its author imports."""

from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Job, Trained
from flcluster.protocol.base import Algorithm
from flcluster.protocol.participation import Cohort, Load
from flcluster.protocol.rounds import Round, RoundAlgorithm, Served
from flcluster.protocol.uploads import Reply, Upload, UploadAlgorithm

__all__ = [
    "Algorithm",
    "Cohort",
    "Federation",
    "Job",
    "Load",
    "Reply",
    "Round",
    "RoundAlgorithm",
    "Served",
    "Trained",
    "Upload",
    "UploadAlgorithm",
]
