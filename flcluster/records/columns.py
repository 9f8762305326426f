"""What the columns of a run's files are called and how they are shown."""

LABELS = {
    "epoch": "round",
    "update": "client trainings",
    "client_acc": "mean client accuracy",
    "client_acc_std": "accuracy's deviation across clients",
    "client_acc_last": "mean client accuracy (last 5 rows)",
    "client_acc_after": "client accuracy after the reply",
    "client_acc_before": "client accuracy before the reply",
    "clusters": "clusters",
    "delta": "threshold Δ",
    "reclusterings": "global re-clusterings so far",
    "heterogeneity": "mean client distance",
    "max_distance": "largest distance in a cluster",
    "p95_distance": "95th percentile of distances",
    "moved": "clients moved",
    "lost": "clients lost",
    "coordinator_seconds": "coordinator's time (s)",
    "report_bytes": "bytes of reports",
    "upload_bytes": "bytes sent by clients so far",
    "download_bytes": "bytes received by clients so far",
    "purity": "purity of assignments",
    "disagreement": "disagreement (mean squared distance)",
    "messages": "models sent so far",
    "isolated": "clients without a neighbour",
    "lost_messages": "models that never arrived so far",
    "message_age": "mean age of models when averaged",
    "ifca_style_acc": "client accuracy (model chosen by test loss)",
    "acc_global": "accuracy on the global test set",
    "acc_local": "accuracy on clients' own test data",
    "acc_global_dropouts": "dropouts' accuracy on the global test set",
    "acc_local_dropouts": "dropouts' accuracy on their own test data",
    "friend_acc_global": "friends' accuracy on the global test set",
    "friend_acc_local": "friends' accuracy on clients' own test data",
    "friend_acc_global_dropouts": "dropouts' friends on the global test set",
    "friend_acc_local_dropouts": "dropouts' friends on their own test data",
    "global_model_acc": "global model's accuracy",
    "generator_loss": "generator's loss",
    "algorithm.topology.p": "edge probability p",
    "algorithm.noise_dim": "dimensions of the generator's noise",
    "algorithm.per_class": "synthetic samples per class",
    "algorithm.interpolation": "interpolation coefficient λ",
    "data.partition.alpha": "Dirichlet α",
    "tta": "time to accuracy",
    "speedup": "speed-up (target = 1)",
    "gain": "accuracy gain (percentage points)",
}
"""What columns and settings are called in pictures."""


SHOWN_SIZES = 10


POPULATION = (
    *("client_acc", "client_acc_std", "clusters", "purity", "heterogeneity", "lost"),
    *(f"cluster_size_{k}" for k in range(SHOWN_SIZES)),
)
"""What is measured of all clients together; sizes are shown of the first ten clusters."""


TITLES = {
    "client_acc": "Accuracy",
    "client_acc_last": "Accuracy, last 5 rows",
    "speedup": "Speed-up",
    "gain": "Gain, points",
    "target": "Target",
    "reclusterings": "Re-clusterings",
    "heterogeneity": "Heterogeneity",
    "clusters": "Clusters",
    "coordinator_seconds": "Coordinator, s",
    "lost": "Lost",
    "moved": "Moved",
    "purity": "Purity",
    "purity_last": "Purity, last 5 rows",
    "disagreement": "Disagreement",
    "messages": "Models sent",
    "isolated": "Isolated",
    "lost_messages": "Models lost",
    "ifca_style_acc": "Accuracy, IFCA style",
    "acc_global": "Global test",
    "acc_local": "Local test",
    "acc_global_dropouts": "Dropouts, global test",
    "acc_local_dropouts": "Dropouts, local test",
    "friend_acc_global": "Friends, global test",
    "friend_acc_local": "Friends, local test",
    "friend_acc_global_dropouts": "Dropouts' friends, global test",
    "friend_acc_local_dropouts": "Dropouts' friends, local test",
    "global_model_acc": "Global model",
    "generator_loss": "Generator's loss",
    "upload_bytes": "Bytes sent",
    "wall_seconds": "Wall time, s",
}


DIGITS = {
    "speedup": 2,
    "gain": 1,
    "tta": 1,
    "wall_seconds": 0,
    "reclusterings": 1,
    "clusters": 1,
    "lost": 1,
    "moved": 1,
    "isolated": 1,
    "messages": 0,
    "lost_messages": 0,
    "report_bytes": 0,
    "upload_bytes": 0,
    "download_bytes": 0,
}


COUNTS = ("reclusterings", "clusters", "lost", "moved", "updates", "isolated")


METRICS = {"client_before": "client_acc_before", "client_after": "client_acc_after", "cluster": "cluster_acc"}


METRICS |= {"client": "client_acc_after", "cluster_trajectory_mean": "cluster_acc_mean"}


METRICS |= {"client_all": "client_acc", "client_all_last": "client_acc_last"}


METRICS |= {name: name for name in ("heterogeneity", "reclusterings", "clusters", "coordinator_seconds", "lost")}


METRICS |= {name: name for name in ("purity", "disagreement", "messages", "isolated", "ifca_style_acc")}


METRICS |= {name: name for name in ("acc_global", "acc_local", "acc_global_dropouts", "acc_local_dropouts")}


METRICS |= {f"friend_{name}": f"friend_{name}" for name in list(METRICS) if name.startswith("acc_")}


METRICS |= {name: name for name in ("global_model_acc", "generator_loss")}


METRICS |= {name: name for name in ("kl", "fresh_share", "deprecated_share", "refused", "updates", "wall_seconds")}


METRICS |= {name: name for name in ("upload_bytes", "download_bytes", "client_compute", "server_compute")}
"""A metric's name in the rows (the papers' where they have it) and its key in a run's summary."""
