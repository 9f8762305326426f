"""pytorch-tabular, whose modules are of the package pytorch_lightning, and pytorch-forecasting."""

import numpy as np
import pytest
import zoo

pytestmark = pytest.mark.zoo
N = 60


def table():
    import pandas as pd

    draw = np.random.default_rng(0)
    held = {"width": draw.normal(size=N), "height": draw.normal(size=N), "kind": draw.choice(["a", "b", "c"], N)}
    return pd.DataFrame({**held, "price": draw.normal(size=N), "label": draw.choice(["no", "yes"], N)})


def of_tabular(config, task):
    from pytorch_tabular import TabularModel
    from pytorch_tabular.config import DataConfig, OptimizerConfig, TrainerConfig

    target = "label" if task == "classification" else "price"
    return TabularModel(
        data_config=DataConfig(target=[target], continuous_cols=["width", "height"], categorical_cols=["kind"]),
        model_config=config,
        optimizer_config=OptimizerConfig(),
        trainer_config=TrainerConfig(batch_size=zoo.SIZE, accelerator="cpu", progress_bar="none"),
        verbose=False,
        suppress_lightning_logger=True,
    )


TABULAR = {
    "CategoryEmbeddingModelConfig": {"layers": "8-4"},
    "FTTransformerConfig": {"num_heads": 2, "num_attn_blocks": 1, "input_embed_dim": 8},
    "GANDALFConfig": {"gflu_stages": 2},
    "AutoIntConfig": {"num_heads": 2, "attn_embed_dim": 4},
    "NodeConfig": {"num_layers": 1, "num_trees": 4, "depth": 2},
    "DANetConfig": {"n_layers": 2, "abstlay_dim_1": 4, "k": 2},
}


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("name", TABULAR)
def test_tabular(name, task):
    from pytorch_tabular import models

    if task == "regression" and name not in ("CategoryEmbeddingModelConfig", "GANDALFConfig"):
        pytest.skip("one of each kind")
    config = getattr(models, name)(task=task, **TABULAR[name])

    def data():
        loader = of_tabular(config, task).prepare_dataloader(table(), table(), seed=0).train_dataloader()
        return loader.dataset, loader.collate_fn  # as TabularModel hands loaders, not its datamodule, to a Trainer

    def make():
        whole = of_tabular(config, task)
        return whole.prepare_model(whole.prepare_dataloader(table(), table(), seed=0))

    zoo.check(make, data, "pytorch-tabular pytorch-lightning", name=f"{name.removesuffix('Config')}, {task}", epochs=1)


def series(**more):
    import pandas as pd
    from pytorch_forecasting import TimeSeriesDataSet

    draw = np.random.default_rng(0)
    frame = pd.concat(
        pd.DataFrame(
            {"time": range(30), "group": str(g), "value": draw.normal(size=30).cumsum(), "price": draw.random(30)}
        )
        for g in range(3)
    )
    given = {"time_idx": "time", "target": "value", "group_ids": ["group"], "max_encoder_length": 6}
    given |= {"max_prediction_length": 3, "time_varying_unknown_reals": ["value"]}
    return TimeSeriesDataSet(frame.reset_index(drop=True), **(given | more))


def forecasting(name):
    """A model of pytorch-forecasting, and the dataset that it is for."""
    import pytorch_forecasting as pf
    from pytorch_forecasting.metrics import SMAPE, NormalDistributionLoss

    small = {"hidden_size": 8, "learning_rate": 0.03}
    if name == "TemporalFusionTransformer":
        dataset = lambda: series(  # noqa: E731
            static_categoricals=["group"], time_varying_known_reals=["time", "price"], add_relative_time_idx=True
        )
        return dataset, lambda: pf.TemporalFusionTransformer.from_dataset(
            dataset(), **small, attention_head_size=2, hidden_continuous_size=4, dropout=0.1
        )
    if name == "DeepAR":
        dataset = lambda: series(static_categoricals=["group"])  # noqa: E731
        return dataset, lambda: pf.DeepAR.from_dataset(dataset(), **small, rnn_layers=1, loss=NormalDistributionLoss())
    if name == "NBeats":
        return series, lambda: pf.NBeats.from_dataset(series(), learning_rate=0.01, widths=[8, 8], num_blocks=[1, 1])
    if name == "NHiTS":
        return series, lambda: pf.NHiTS.from_dataset(series(), **small, loss=SMAPE())
    return series, lambda: pf.RecurrentNetwork.from_dataset(series(), **small, rnn_layers=1)


@pytest.mark.parametrize("name", ["TemporalFusionTransformer", "DeepAR", "NBeats", "NHiTS", "RecurrentNetwork"])
def test_forecasting(name):
    dataset, make = forecasting(name)

    def data():
        held = dataset()
        return held, held.to_dataloader(batch_size=zoo.SIZE).collate_fn

    zoo.check(make, data, "pytorch-forecasting", name=name, epochs=1, val_share=0.2, validates=True)
