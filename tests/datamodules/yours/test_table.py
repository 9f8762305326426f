"""CSV files: inputs of numbers and words, classes and targets, clients by a column."""

import numpy as np
import pytest
import torch

from flcluster.data import labels_of
from flcluster.datamodules import IID, CSVDataModule, Dirichlet
from flcluster.errors import UserError


def write(path, rows=60, first=0):
    lines = ["age,colour,who,kind,price"]
    for i in range(first, first + rows):
        age = "" if i % 10 == 3 else 20 + i
        lines.append(f"{age},{('red', 'blue', 'green')[i % 3]},{i % 12},{('yes', 'no')[i % 2]},{i / 4}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_numbers_are_standardised_by_the_rows_that_train_and_words_are_inputs_each(tmp_path):
    data = CSVDataModule(write(tmp_path / "t.csv"), "kind", clients="who", val_share=0.2)
    assert (data.num_clients, data.num_classes, data.class_names) == (12, 2, ("no", "yes"))
    assert data.input_shape == (5,) and data.client_names == tuple(range(12)) and data.name == "t"
    x, _ = data.pool("train").tensors()
    assert data.columns == ("age", "colour=blue", "colour=green", "colour=red", "price")
    assert x.dtype == torch.float32 and not x.isnan().any()
    torch.testing.assert_close(x[:, 4].mean(), torch.zeros(()), atol=1e-5, rtol=0)
    torch.testing.assert_close(x[:, 4].std(correction=0), torch.ones(()), atol=1e-5, rtol=0)
    assert (x[:, 1:4].sum(1) == 1).all()
    known = x[:, 0] != 0
    torch.testing.assert_close(x[known, 0].mean(), torch.zeros(()), atol=1e-5, rtol=0)
    assert abs(float(data.pool("test").tensors()[0][:, 4].mean())) > 1e-3  # others do not take part in it


def test_a_sample_is_its_row(tmp_path):
    data = CSVDataModule(write(tmp_path / "t.csv"), "kind", clients="who", drop=["age"])
    shards = [data.shard(m) for m in range(12)]
    for client, shard in enumerate(shards):
        x, y = (torch.cat(pair) for pair in zip(shard.train.tensors(), shard.test.tensors(), strict=True))
        colours = x[:, :3].argmax(1)
        assert set(y.tolist()) == {(client + 1) % 2} and set(colours.tolist()) == {{0: 2, 1: 0, 2: 1}[client % 3]}


def test_a_number_to_predict(tmp_path):
    data = CSVDataModule(
        write(tmp_path / "t.csv"), "price", task="regression", clients="who", drop=["kind"], test_share=0.0
    )
    _, y = data.pool("train").tensors()
    assert data.num_classes == 0 and sorted(y.tolist()) == [i / 4 for i in range(60)] and y.dtype == torch.float32
    with pytest.raises(UserError, match="divides by class labels"):
        CSVDataModule(tmp_path / "t.csv", "price", task="regression", partition=Dirichlet()).setup()
    with pytest.raises(
        UserError, match=r"t.csv, line 2: 'red' in the column 'colour' is no finite number: data.task is regression"
    ):
        CSVDataModule(tmp_path / "t.csv", "colour", task="regression", partition=IID()).setup()


def test_a_test_file_of_its_own(tmp_path):
    train, test = write(tmp_path / "t.csv"), write(tmp_path / "u.csv", 24, first=60)
    test.write_text(test.read_text().replace("green", "pink"))
    data = CSVDataModule(train, "kind", clients="who", test_path=test)
    assert len(data.pool("train")) == 60 and [len(data.shard(m).test) for m in range(12)] == [2] * 12
    x, _ = data.pool("test").tensors()
    assert (x[:, 1:4].sum(1) == 0).sum() == 8  # pink is no colour that training knew
    assert float(x[:, 4].min()) > 1.7  # scaled like the training rows, all of which cost less


def test_clusters_by_a_column(tmp_path):
    data = CSVDataModule(write(tmp_path / "t.csv"), "kind", clients="who", clusters="colour")
    assert data.num_clusters == 3 and data.input_shape == (2,)
    assert [int(data.shard(m).mixture.argmax()) for m in range(3)] == [2, 0, 1]


def test_classes_that_are_numbers_are_in_their_order(tmp_path):
    (tmp_path / "t.csv").write_text("a;b\n" + "".join(f"{i};{(9, 10, 2)[i % 3]}\n" for i in range(12)))
    data = CSVDataModule(tmp_path / "t.csv", "b", partition=Dirichlet(alpha=9.0), num_clients=2, delimiter=";")
    assert data.class_names == ("2", "9", "10")
    assert np.bincount(labels_of(data.pool("train"))).sum() == len(data.pool("train"))


@pytest.mark.parametrize(
    ("text", "change", "told"),
    [
        ("a,b\n1,2\n", {"label": "c"}, "has no column 'c'; it has a, b"),
        ("a,b\n1,2\n", {"drop": ["d"]}, "has no column 'd'"),
        ("a,b\n1,2\n3\n", {}, "line 3: 1 cells, but the heading has 2"),
        ("a,b\n1,2\nsoon,2\n", {}, "line 3: 'soon' in the column 'a' is no finite number"),
        ("a,b\n1,2\nnan,2\n", {}, "line 3: 'nan' in the column 'a' is no finite number"),
        ("a,b\n1,2\n\n1e39,2\n", {}, "line 4: '1e39' in the column 'a' is no finite number"),
        ("a,b\n1,2\n3,soon\n", {}, "line 3: 'soon' in the column 'b' is no whole number, but other labels are"),
        ("a,b\n1,2\n3,\n", {}, "line 3: '' in the column 'b' is empty"),
        ("a,a,b\n1,2,3\n", {}, "has the column 'a' more than once"),
        ("a,b\n", {}, "is empty"),
        ("a,b\n1,\0\n", {}, "line 2: a character of value 0 is not text in UTF-8"),
        ("", {}, "is empty"),
        ("b\n1\n", {}, "no column besides"),
        ("a,b\n1,2\n", {"path": "gone.csv"}, "gone.csv cannot be read"),
    ],
)
def test_what_cannot_be_read_is_told(text, change, told, tmp_path):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(UserError) as caught:
        CSVDataModule(**{"path": tmp_path / "t.csv", "label": "b", "partition": IID(), **change}).setup()
    assert told in str(caught.value)


def test_a_column_of_words_may_look_like_numbers(tmp_path):
    (tmp_path / "t.csv").write_text("zip,b\n8001,1\nWC2,1\n8001,2\n8004,2\n")
    data = CSVDataModule(tmp_path / "t.csv", "b", partition=IID(), num_clients=1, words=["zip"], test_share=0.0)
    data.setup()
    assert data.columns == ("zip=8001", "zip=8004", "zip=WC2")


def test_a_class_that_only_the_test_file_has_is_refused(tmp_path):
    train, test = write(tmp_path / "t.csv"), write(tmp_path / "u.csv", 24, first=60)
    test.write_text(test.read_text().replace(",no,", ",maybe,", 1))
    with pytest.raises(UserError, match=r"u.csv, line 3: 'maybe' in the column 'kind' is a class that no row of train"):
        CSVDataModule(train, "kind", clients="who", test_path=test).setup()


def test_a_file_in_another_encoding_is_refused_by_its_line(tmp_path):
    (tmp_path / "t.csv").write_bytes("a,b\n1,2\nÄrger,2\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"t.csv, line 3: the byte 0xc4 is not text in UTF-8"):
        CSVDataModule(tmp_path / "t.csv", "b", partition=IID()).setup()
