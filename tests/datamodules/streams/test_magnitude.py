"""How far data drift, by hand and beside the paper."""

import numpy as np
import pytest
import torch
from rich.console import Console
from samples import Given

from flcluster.cli.drift import drift_table
from flcluster.datamodules import (
    FrameIntervals,
    Images,
    ImageSource,
    LabelBuckets,
    StreamDataModule,
    Timestamps,
)
from flcluster.datamodules.streams.holding import Loaded
from flcluster.datamodules.streams.magnitude import embedding_drift, label_drift, summarise
from flcluster.report.paper_tables import read_table


class Labels(StreamDataModule):
    """60,000 one-pixel images: labels are all that matters here."""

    name = "labels"

    def load(self):
        labels = torch.arange(60_000) % self.num_classes
        images = Images(labels.to(torch.uint8)[:, None, None, None], labels)
        return Loaded(ImageSource(images, (0.0,), (1 / 255,)), np.arange(60_000), np.arange(0))


def stream(num_clients, arrivals, **kwargs):
    return Labels(10, (1, 1, 1), num_clients=num_clients, arrivals=arrivals, **kwargs)


def test_by_hand():
    # sample i has label i % 10; client 0: labels 1, 1 and then 1, 1, 2, 2; client 1: 3 and then 4; client 2: only later
    rows = ((1, 0, 0), (11, 0, 0), (2, 0, 5), (12, 0, 5), (3, 1, -6), (4, 1, 5), (7, 2, 5))
    data = stream(3, Given(rows), window=10, test_share=0.0)
    assert data.drifted(5).tolist() == [0, 1, 2]
    np.testing.assert_allclose(label_drift(data), [(1.0 + 2.0) / 2])  # client 2 had nothing to compare with

    def embed(view):
        return [float(view.tensors()[0].mean()), 2.0]

    before, after = (np.array(v) / np.linalg.norm(v) for v in ((1, 2), (1.5, 2)))
    other = [np.array(v) / np.linalg.norm(v) for v in ((3, 2), (4, 2))]
    expected = (np.linalg.norm(before - after) + np.linalg.norm(other[0] - other[1])) / 2
    np.testing.assert_allclose(embedding_drift(data, embed), [expected], rtol=1e-5)
    assert len(label_drift(data, until=4)) == 0


def test_summaries_leave_out_events_without_clients():
    assert summarise(np.array([0.1, np.nan, 0.4, 0.2])) == pytest.approx((0.1, 0.4, 0.7 / 3, 0.2))
    assert all(np.isnan(summarise(np.array([]))))


def printed(dataset):
    (row,) = [r for r in read_table("fielding_table2_drift") if (r["dataset"], r["metric"]) == (dataset, "label_L1")]
    return {name: float(row[name]) for name in ("min", "max", "mean", "median")}


@pytest.mark.parametrize(
    ("plan", "num_clients", "dataset", "events"),
    [
        (LabelBuckets(), 500, "OpenImage", 7),
        (FrameIntervals(), 217, "Cityscapes", 6),
        (FrameIntervals(gap=20), 212, "Waymo", 4),
        (Timestamps(), 302, "FMoW", 999),
    ],
)
def test_defaults_drift_as_far_as_the_papers_data(plan, num_clients, dataset, events):
    """The clients, gaps and windows of the paper, on ten classes."""
    ours, paper = label_drift(stream(num_clients, plan)), printed(dataset)
    assert len(ours) == pytest.approx(events, abs=2)
    assert summarise(ours).mean == pytest.approx(paper["mean"], rel=0.06)
    assert summarise(ours).median == pytest.approx(paper["median"], rel=0.12)


def test_the_table_stands_beside_the_papers():
    data = stream(20, LabelBuckets())
    console = Console(width=120)
    with console.capture() as capture:
        console.print(drift_table(data))
    text = capture.get()
    ours = summarise(label_drift(data))
    assert f"{ours.mean:.3f}" in text and f"{ours.max:.3f}" in text and "labels (ours)" in text
    assert "1.179" in text and "FMoW" in text and "embedding_L2" not in text
    table = drift_table(data, embed=lambda view: view.tensors()[0].mean(dim=0).reshape(-1), until=50)
    assert table.row_count == 2 + 8
