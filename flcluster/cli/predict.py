"""What a model of a run says of a client's or a cluster's samples, as a file."""

from pathlib import Path
from typing import Literal

from flcluster.cli.arguments import loading, parser_of
from flcluster.errors import UserError


def predict(argv: list[str]) -> int:
    """Write what a model of a run predicts, by the module's ``predict_step``, on the run's own data."""
    parser = parser_of("predict")
    parser.add_argument("run", type=str, help="Run directory.")
    parser.add_argument("--cluster", type=int | None, default=None, help="Which cluster's model and data (0, 1, …).")
    parser.add_argument("--client", type=int | None, default=None, help="Which client's model and data.")
    parser.add_argument("--split", type=Literal["train", "val", "test"], default="test", help="Which samples.")
    parser.add_argument("--output", type=str, default="predictions.csv", help="File: .csv, or .pt for any structure.")
    given = parser.parse_args(argv)
    if (given.cluster is None) == (given.client is None):
        raise UserError("give either --cluster K or --client M")
    loading("predict", argv)
    from flcluster.engine.finished.predicting import Asked, predicted
    from flcluster.engine.finished.saved import Saved
    from flcluster.records.predictions import WRITERS

    path = Path(given.output)
    if path.suffix not in WRITERS:
        raise UserError(f"--output {path}: its name must end in {' or '.join(WRITERS)}")
    found = predicted(Saved.load(Path(given.run)), Asked(given.cluster, given.client, split=given.split))
    WRITERS[path.suffix](found, path)
    print(f"wrote {path}")
    return 0
