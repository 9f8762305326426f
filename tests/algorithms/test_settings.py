"""Settings: the smallest and largest that are taken, those next to them that are refused, and the papers' defaults."""

import inspect
import math

import pytest

from flcluster import algorithms
from flcluster.algorithms import (
    APFL,
    CA2FL,
    CCFL,
    CDFL,
    DFCA,
    IFCA,
    AsyncDFCA,
    Auxo,
    DFedAvgM,
    DistanceSelection,
    FedAsync,
    FedAvg,
    FedAvgFT,
    FedBuff,
    FedDF,
    FedDrift,
    FedGen,
    FedProx,
    FedSoftAsync,
    FedSPD,
    Fielding,
    FieldingAnalysis,
    FixedDelta,
    FlexCFL,
    Gradient,
    HoldOnSingle,
    InputEmbedding,
    Local,
    LossTriggeredFielding,
    MoveIndividuals,
    Oort,
    PairDistance,
    PrintedRule,
    QFair,
    RandomVectors,
    Scaffold,
    SelectedOnly,
    StaticClustering,
    Yogi,
)
from flcluster.clustering import L1, L2
from flcluster.errors import UserError
from flcluster.protocol.base import Algorithm
from flcluster.protocol.rounds import RoundAlgorithm
from flcluster.protocol.uploads import UploadAlgorithm

METHODS = [
    kind
    for kind in (getattr(algorithms, name) for name in algorithms.__all__)
    if inspect.isclass(kind) and issubclass(kind, Algorithm)
]
NAN, INF = math.nan, math.inf
LIMITS = [
    (FedAvg, "local_epochs", [1], [0]),
    (FedAvg, "batch_size", [1], [0]),
    (FedAvg, "rounds", [1], [0]),
    (FedAvg, "overcommit", [1.0], [0.99, NAN]),
    (FedAvg, "prox", [0.0], [-0.01, NAN]),
    (FedAvg, "lr_decay", [1e-9, 2.0], [0.0, INF, NAN]),
    (FedAvg, "participation", [1e-9, 1.0], [0.0, 1.01, NAN]),
    (FedAvg, "participants", [1], [0]),
    (FedAvg, "local_steps", [1], [0]),
    (CDFL, "pretrain_epochs", [0], [-1]),
    (CDFL, "shared_epochs", [0], [-1]),
    (CDFL, "cycles", [1e-9], [0.0, -1.0, NAN]),
    (CDFL, "rho", [0.0], [-0.01, NAN]),
    (CDFL, "beta0", [0.0, 1.0], [-0.01, 1.01, NAN]),
    (CDFL, "c1", [0.0, 0.75], [-0.01, 0.76]),
    (CDFL, "c2", [0.0, 0.5], [-0.01, 0.51]),
    (FedSoftAsync, "rho", [0.0], [-0.01]),
    (FedSoftAsync, "beta0", [0.0, 1.0], [-0.01, 1.01]),
    (Local, "rho", [0.0], [-0.01]),
    (FedBuff, "buffer_size", [1], [0]),
    (CA2FL, "buffer_size", [1], [0]),
    (FedAsync, "alpha", [1e-9, 1.0], [0.0, 1.01, INF, NAN]),
    (FedAsync, "a", [0.0], [-0.01]),
    (FedAsync, "b", [0.0], [-0.01]),
    (FedAsync, "rho", [0.0], [-0.01]),
    (Auxo, "max_clusters", [1], [0]),
    (Auxo, "min_cohort", [1], [0]),
    (Auxo, "balance", [(0.0, 0.5)], [(0.5, 0.5), (2.0, 0.5), (-0.1, 2.0)]),
    (Auxo, "tail", [1e-9, 1.0], [0.0, 1.01, NAN]),
    (FedDrift, "isolation", [1], [0]),
    (FedDrift, "max_models", [1], [0]),
    (FedDrift, "merge_batches", [1], [0]),
    (FlexCFL, "num_clusters", [1], [0]),
    (FlexCFL, "pretrain_steps", [1], [0]),
    (FlexCFL, "founders", [1], [0]),
    (FieldingAnalysis, "local_steps", [1], [0, 2]),
    (LossTriggeredFielding, "rise", [0.0], [-0.01]),
    (Gradient, "epochs", [0], [-1]),
    (Gradient, "batch_size", [1], [0]),
    (Gradient, "dimensions", [1], [0]),
    (InputEmbedding, "epochs", [0], [-1]),
    (InputEmbedding, "batch_size", [1], [0]),
    (PairDistance, "quantile", [1e-9, 1.0], [0.0, 1.01, NAN]),
    (PairDistance, "sample", [1], [0]),
    (PrintedRule, "c", [1e-9], [0.0, INF, NAN]),
    (PrintedRule, "m", [1.01], [1.0, INF, NAN]),
    (HoldOnSingle, "c", [1e-9], [0.0, INF, NAN]),
    (FixedDelta, "delta", [0.0, INF], [-0.01, NAN]),
    (DFCA, "num_clusters", [1], [0]),
    (DFCA, "min_share", [0.0, 1.0], [-0.01, 1.01]),
    (IFCA, "num_clusters", [1], [0]),
    (IFCA, "min_share", [0.0, 1.0], [-0.01, 1.01]),
    (AsyncDFCA, "spread", [0.0], [-0.01]),
    (AsyncDFCA, "latency", [0.0], [-0.01]),
    (AsyncDFCA, "idle_neighbours", [False], [True]),
    (DFedAvgM, "momentum", [0.0, 0.999], [-0.01, 1.0, NAN]),
    (FedSPD, "num_clusters", [1], [0]),
    (FedSPD, "min_samples", [0], [-1]),
    (FedSPD, "align_every", [0], [-1]),
    (FedSPD, "tune_epochs", [0], [-1]),
    (FedSPD, "momentum", [0.0, 0.999], [-0.01, 1.0, NAN]),
    (FedSPD, "tune_lr", [1e-9], [0.0, NAN]),
    (FedSPD, "tune_decay", [1e-9], [0.0, NAN]),
    (FedDF, "distillation_steps", [0], [-1]),
    (FedDF, "distillation_batch", [1], [0]),
    (FedDF, "distillation_lr", [1e-9], [0.0, NAN]),
    (FedDF, "distillation_clip", [1e-9], [0.0, NAN]),
    (FedDF, "temperature", [1e-9], [0.0, NAN]),
    (FedGen, "gen_batch", [1], [0]),
    (FedGen, "generator_steps", [1], [0]),
    (FedGen, "noise_dim", [1], [0]),
    (FedGen, "generator_hidden", [1], [0]),
    (FedGen, "generator_batch", [2], [1]),
    (FedGen, "label_weight", [0.0], [-0.01]),
    (FedGen, "latent_weight", [0.0], [-0.01]),
    (FedGen, "generator_weight_decay", [0.0], [-0.01]),
    (FedGen, "diversity", [0.0], [-0.01]),
    (FedGen, "weight_decline", [1e-9], [0.0, INF, NAN]),
    (FedGen, "generator_lr", [1e-9], [0.0, INF, NAN]),
    (FedGen, "generator_lr_decline", [1e-9], [0.0, INF, NAN]),
    (Scaffold, "server_lr", [1e-9], [0.0, NAN]),
    (FedAvgFT, "finetune_epochs", [0], [-1]),
    (APFL, "noise_dim", [1], [0]),
    (APFL, "project_dim", [1], [0]),
    (APFL, "per_class", [1], [0]),
    (APFL, "friend_epochs", [1], [0]),
    (APFL, "generator_batch", [2], [1]),
    (APFL, "generator_steps", [0], [-1]),
    (APFL, "generator_hidden", [2], [1]),
    (APFL, "gamma", [0.0, 1.0], [-0.01, 1.01, NAN]),
    (APFL, "interpolation", [0.0, 1.0], [-0.01, 1.01, NAN]),
    (APFL, "dropout_interpolation", [0.0, 1.0], [-0.01, 1.01, NAN]),
    (APFL, "generator_per_class", [1], [0]),
    (APFL, "generator_lr", [1e-9], [0.0, NAN]),
    (APFL, "staleness_exponent", [0.0], [-0.01]),
    (APFL, "server_lr", [1e-9, 1.0], [0.0, 1.01, NAN]),
    (RandomVectors, "dim", [1], [0]),
    (Yogi, "eta", [1e-9], [0.0, NAN]),
    (Yogi, "tau", [1e-9], [0.0, NAN]),
    (Yogi, "beta1", [0.0, 0.999], [-0.01, 1.0, NAN]),
    (Yogi, "beta2", [0.0, 0.999], [-0.01, 1.0, NAN]),
    (QFair, "q", [0.0], [-0.01, NAN]),
    (DistanceSelection, "epsilon", [1e-9], [0.0, NAN]),
    *((Oort, name, [0.0, 1.0], [-0.01, 1.01, NAN]) for name in ("exploration", "decay", "floor", "clip", "cut_off")),
    (Oort, "preferred", [0.0, 100.0], [-0.01, 100.1, NAN]),
    (Oort, "window", [1], [0]),
    (Oort, "reach", [1.0], [0.99, NAN]),
]


@pytest.mark.parametrize(("kind", "name", "good", "bad"), LIMITS, ids=lambda value: getattr(value, "__name__", None))
def test_a_setting_is_taken_up_to_its_limit_and_refused_beyond(kind, name, good, bad):
    for value in good:
        assert getattr(kind(**{name: value}), name) == value
    for value in bad:
        with pytest.raises(UserError, match=name):
            kind(**{name: value})


@pytest.mark.parametrize("kind", METHODS, ids=lambda kind: kind.__name__)
def test_every_method_refuses_what_no_method_can_do(kind):
    bad = {"local_epochs": 0, "batch_size": 0}
    bad |= {"rounds": 0, "prox": -1.0, "participation": 0.0} if issubclass(kind, RoundAlgorithm) else {}
    bad |= {"cycles": 0.0, "pretrain_epochs": -1} if issubclass(kind, UploadAlgorithm) else {}
    for name, value in bad.items():
        with pytest.raises(UserError, match=rf"^algorithm\.{name} must be "):
            kind(**{name: value})


def test_a_distance_must_fit_what_is_reported():
    Fielding(distance=L1())
    Fielding(representation=InputEmbedding(), distance=L2())
    with pytest.raises(UserError, match=r"algorithm\.distance L1 does not fit InputEmbedding: use L2"):
        Fielding(representation=InputEmbedding(), distance=L1())


def test_models_of_ones_own_attract_no_shares():
    with pytest.raises(UserError, match=r"algorithm\.min_share .*initialisation=global"):
        DFCA(num_clusters=2, min_share=0.1, initialisation="local")
    DFCA(num_clusters=2, min_share=0.0, initialisation="local")
    for kind in (DFCA, IFCA):
        kind(num_clusters=4, min_share=0.25)
        with pytest.raises(UserError, match=r"algorithm\.min_share must be from 0 to 1/k"):
            kind(num_clusters=4, min_share=0.26)


DEFAULTS = [
    (FedAvg, {"local_epochs": 5, "batch_size": 128, "rounds": 100, "participation": 1.0, "prox": 0.0}),
    (FedAvg, {"lr_decay": 1.0, "overcommit": 1.3, "participants": None, "local_steps": None}),  # FedScale: 1.3 M
    (FedProx, {"prox": 0.1}),
    (
        CDFL,
        {"cycles": 25.0, "pretrain_epochs": 20, "shared_epochs": 0, "rho": 0.1, "beta0": 0.025, "a": 10.0, "b": 5.0},
    ),
    (CDFL, {"c1": 0.5, "c2": 0.25, "amplifier": 7.0, "loss_bar": 8.0, "gap_bar": 0.0, "distance_bar": 0.0}),
    (CDFL, {"clamp": True, "threshold": "ave", "adjust_start": None, "staleness": "cdfl", "staleness_unit": "cycles"}),
    (CCFL, {"adjust_start": 0.5, "adjust_quantile": 0.7, "staleness": "ccfl"}),
    (FedSoftAsync, {"rho": 0.1, "sigma": 1e-4, "pull": "clusters", "beta0": 0.025}),
    (FedBuff, {"buffer_size": 10, "server_lr": 1.0, "staleness_exponent": 0.5}),
    (CA2FL, {"buffer_size": 10, "server_lr": 1.0}),
    (Local, {"rho": 0.0, "start": "common", "sends": False}),
    (FedAsync, {"alpha": 0.6, "rho": 0.005, "b": 4.0, "slope": 0.5}),
    (Fielding, {"recluster": "selective", "moves": True, "reporters": "drifted", "measure": "all"}),
    (StaticClustering, {"recluster": "never", "moves": False}),
    (MoveIndividuals, {"recluster": "never", "moves": True}),
    (SelectedOnly, {"recluster": "selective", "moves": True, "reporters": "participants"}),
    (FieldingAnalysis, {"local_steps": 1, "delta_rule": FixedDelta(0.1)}),
    (LossTriggeredFielding, {"rise": 0.5}),
    (PrintedRule, {"c": 0.1, "m": 2.0}),
    (PairDistance, {"quantile": 1.0, "sample": 100_000}),
    (Gradient, {"dimensions": 256, "epochs": 50, "batch_size": 20, "passes": 3.0}),  # forward, and backward twice that
    (InputEmbedding, {"epochs": 50, "batch_size": 20, "passes": 1.0}),
    (FlexCFL, {"pretrain_steps": 50, "founders": 20, "shift": 0.2, "group_lr": 0.0, "num_clusters": 4}),
    (FedDrift, {"delta": 0.1, "isolation": 1, "merge_batches": 20, "max_models": 10}),
    (Auxo, {"max_clusters": 8, "until": 500, "half_reward": 1.0, "epsilon_decay": 0.99}),
    (DFCA, {"min_share": 0.0, "idle_neighbours": False, "ifca_style": False, "overcommit": 1.0}),
    (IFCA, {"min_share": 0.0, "ifca_style": False, "overcommit": 1.3}),
    (AsyncDFCA, {"spread": 0.5, "latency": 0.1}),
    (DFedAvgM, {"momentum": 0.9}),
    (FedSPD, {"momentum": 0.5, "lr_decay": 0.8, "decay_every": 5, "min_samples": 10, "align_every": 10}),
    (FedSPD, {"tune_epochs": 5, "tune_lr": 0.5, "tune_decay": 0.8, "tune_decay_every": 3}),
    (APFL, {"friend_epochs": 20, "interpolation": 0.1, "generator_hidden": 128, "finetune_epochs": 20}),
    (FedAvgFT, {"finetune_epochs": 20}),
    (FedDF, {"distillation_steps": 100, "distillation_batch": 128, "distillation_lr": 1e-3, "distillation_clip": 5.0}),
    (FedDF, {"temperature": 1.0}),
    (FedGen, {"label_weight": 10.0, "latent_weight": 10.0, "weight_decline": 0.98, "gen_batch": 32, "diversity": 1.0}),
    (FedGen, {"generator_steps": 50, "generator_batch": 32, "generator_lr": 3e-4, "generator_lr_decline": 0.98}),
    (FedGen, {"generator_weight_decay": 0.01, "noise_dim": 32, "generator_hidden": 256}),
    (Yogi, {"eta": 3e-3, "tau": 1e-8, "beta1": 0.9, "beta2": 0.99}),
    (QFair, {"q": 1.0}),
    (Scaffold, {"server_lr": 1.0}),
    (Oort, {"reach": 5.0, "penalty": 2.0}),
    (DistanceSelection, {"epsilon": 0.01}),
    (RandomVectors, {"dim": 512}),
]
"""Where the papers and the public code say something, it is that."""


@pytest.mark.parametrize(("kind", "values"), DEFAULTS, ids=lambda value: getattr(value, "__name__", None))
def test_defaults_are_as_documented(kind, values):
    made = kind()
    assert {name: getattr(made, name) for name in values} == values


@pytest.mark.parametrize("kind", METHODS, ids=lambda kind: kind.__name__)
def test_whether_model_k_stands_for_the_datas_cluster_k(kind):
    """Not where clients choose among models that began at random, or where clusters are found."""
    chosen = {"DFCA", "AsyncDFCA", "IFCA", "FedSPD"}
    assert kind.named_clusters == (kind.__name__ not in chosen)
