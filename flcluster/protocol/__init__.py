"""What a method is and what it meets: everything its author imports."""

from flcluster.federation.averaging import average_by_label
from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Job, Trained, Training
from flcluster.protocol.base import Algorithm
from flcluster.protocol.outcome import Round, Served
from flcluster.protocol.participation import Cohort
from flcluster.protocol.rounds import Phase, RoundAlgorithm
from flcluster.protocol.uploads import Reply, Upload, UploadAlgorithm

__all__ = [
    "Algorithm",
    "Cohort",
    "Federation",
    "Job",
    "Phase",
    "Reply",
    "Round",
    "RoundAlgorithm",
    "Served",
    "Trained",
    "Training",
    "Upload",
    "UploadAlgorithm",
    "average_by_label",
]
