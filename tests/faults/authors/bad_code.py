"""Mistakes in an author's code, each one replacement in a right file; and what is right too, though it looks odd."""

from dataclasses import dataclass

from good_code import KINDS

M, U, F, L, D, C, T = KINDS


@dataclass(frozen=True)
class Case:
    """A file with one thing changed."""

    kind: str
    old: str
    new: str
    said: str = ""
    """What must be said, besides the class and the file where it is refused."""
    flags: tuple[str, ...] = ()
    name: str = "Mine"
    """The class that must be named."""

    @property
    def text(self) -> str:
        """The file."""
        right = KINDS[self.kind][0]
        assert right.count(self.old) >= 1, f"{self.kind} has no {self.old}"
        return right.replace(self.old, self.new, 1)


INIT, STEP = (
    "return State(fed.init_rows(1))",
    'return new, Round(cohort, training.results, new.models, extra={"spread": 1.0})',
)
MEAN = "rows.mean(0, keepdim=True)"
ANSWER = "return State(model, state.count + 1), Reply(model)"
LOSS = "loss = F.cross_entropy(self(x), y)"
LOGITS = "return self.head(self.features(x))"
SHARD = "return Shard(View(((self.train, index),)), View(((self.test, index),)), torch.ones(1))"
FAST = ("--model.lr", "1e30")
ALL = ("--algorithm.measure", "all")

WRONG = [
    # a method in rounds: what it returns
    Case(M, INIT, "return None", "returned None"),
    Case(M, INIT, "return {'models': fed.init_rows(1)}", "returned a dict"),
    Case(M, INIT, "return State(fed.init_rows(1), {0: lambda: 1})", "no checkpoint can hold: 0 (function)"),
    Case(M, INIT, "return State(fed.init_rows(1), {0: object()})", "no checkpoint can hold: 0 (object)"),
    Case(M, INIT, "return State(fed.init_rows(1), fed)", "no checkpoint can hold: seen (Federation)"),
    Case(M, INIT, "return State(fed.init_rows(1), {0: fed.init_rows(1).numpy()})", "0 (ndarray)"),
    Case(M, INIT, "return State(fed.init_rows(1) / 0)", "first models are not finite"),
    Case(M, "RoundAlgorithm[State]", "RoundAlgorithm", "what its state is"),
    Case(M, STEP, "pass", "returned None"),
    Case(M, STEP, "return new", "returned a State"),
    Case(M, STEP, "return new, Round(cohort, training.results, new.models), 3", "returned a tuple of 3"),
    Case(M, STEP, "yield new", "returned a generator"),
    Case(M, STEP, "return new.models, Round(cohort, training.results, new.models)", "a state of type State"),
    Case(M, STEP, "return new, training.results", "must return a Round"),
    Case(M, STEP, "return new, Round(cohort, training, new.models)", "training.results"),
    Case(M, STEP, "return new, Round(cohort, training.results[::-1], new.models)", "those of its cohort"),
    Case(M, STEP, "return new, Round(cohort, training.results, new.models[:, :5])", "a row of"),
    Case(M, STEP, "return new, Round(cohort, training.results, new.models[0])", "a row of"),
    Case(M, STEP, "return new, Round(cohort, training.results, new.models.long())", "floating-point"),
    Case(M, STEP, "return new, Round(cohort, training.results, new.models, [4] * len(rows))", "1 models"),
    # what it logs
    Case(M, 'extra={"spread": 1.0}', 'extra={"width": 1.0}', "'width', which is not declared"),
    Case(M, 'extra={"spread": 1.0}', 'extra={"spread": torch.ones(2)}', "a number as 'spread'"),
    Case(M, 'extra={"spread": 1.0}', "extra=[1.0]", "must return a dict"),
    Case(M, 'return {"spread": float(len(state.seen))}', 'return {"width": 1.0}', "'width', which is not declared"),
    # what it computes
    Case(M, MEAN, "rows.sum(0, keepdim=True) / 0", "makes models NaN or infinite"),
    Case(M, MEAN, "(rows - rows).log().mean(0, keepdim=True)", "makes models NaN or infinite"),
    Case(M, "{**state.seen, t: len(rows)}", "{t: float('nan')}", "makes 0 NaN or infinite"),
    Case(M, "{**state.seen, t: len(rows)}", "{t: Mine}", "no checkpoint can hold: 0 (ABCMeta)"),
    Case(M, "new = State", "state.models.add_(1); new = State", "changes models of the state"),
    Case(M, "new = State", "state.seen[t] = 1; new = State", "changes seen of the state"),
    Case(M, "cohort = self", "1 / t; cohort = self", "ZeroDivisionError: division by zero"),
    Case(M, "cohort = self", "state.models = None; cohort = self", "FrozenInstanceError"),
    Case(M, "cohort = self", "cohort = self.select(t); cohort = self", "TypeError"),
    Case(M, "state.models[0], t, fed)", "state.models, t, fed)", "a model is a row of"),
    Case(M, "state.models[0], t, fed)", "state.models[0][:1], t, fed)", "a model is a row of"),
    Case(M, "new = State", "fed.accuracy(rows[0][:1], fed.data.cluster_test(0)); new = State", "a model is a row of"),
    Case(M, "return Served(state.models, np.zeros(fed.data.num_clients, dtype=np.int64))", "return None",
         "must return a Served", ALL),
    Case(M, "np.zeros(fed.data.num_clients, dtype", "np.zeros(2, dtype", "but says 2", ALL),
    # a method of uploads
    Case(U, ANSWER, "return None", "returned None"),
    Case(U, ANSWER, "return State(model), model", "must return a Reply, but returned a Tensor"),
    Case(U, ANSWER, "return State(model), Reply(model[:4])", "a row of"),
    Case(U, ANSWER, "return State(model), Reply(model, anchor=torch.ones(3))", "its Reply's anchor"),
    Case(U, ANSWER, "return State(model), Reply(None)", "but returned None"),
    Case(U, ANSWER, "return State(model), Reply(model.round().int())", "of int32"),
    Case(U, ANSWER, "return State(model), Reply(model, extra={'best': 1})", "'best', which is not declared"),
    Case(U, ANSWER, "return State(model * float('nan')), Reply(model)", "makes model NaN"),
    Case(U, ANSWER, "return State(model), Reply(model / 0)", "makes reply[0] NaN or infinite"),
    Case(U, "model = (state.model + up.row) / 2", "model = state.model.lerp_(up.row, 0.5)", "changes model of"),
    Case(U, "return Reply(state.model)", "return state.model", "must return a Reply, but returned a Tensor"),
    Case(U, "model = (state", "raise RuntimeError('odd'); model = (state", "RuntimeError: odd"),
    # a classifier in the flat loop
    Case(F, LOGITS, f"{LOGITS}[:, :5]", "a logit for each of 10 classes"),
    Case(F, LOGITS, "return self.features(x).sum(1)", "must return logits"),
    Case(F, LOGITS, "return None", "must return logits"),
    Case(F, LOGITS, f"{LOGITS}.detach()", "without a gradient"),
    Case(F, LOGITS, "return (self.head(self.features(x)) * 0).log()", "a loss of nan"),
    Case(F, LOGITS, "return self.head(x)", "RuntimeError"),
    Case(F, "return torch.optim.SGD(self.parameters(), self.lr)", "return 'sgd'", "cannot train Mine"),
    Case(F, "def configure_optimizers", "def other", "lower its learning rate", FAST),
    Case(F, "self.head =", "self.top =", "AttributeError"),
    # a LightningModule in a Trainer
    Case(L, "return loss", "pass", "returns no loss"),
    Case(L, "return loss", "return loss.item()", "training_step"),
    Case(L, "return loss", "return loss.detach()", "without a gradient"),
    Case(L, "return loss", "return F.cross_entropy(self(x), y, reduction='none')", "one number"),
    Case(L, LOSS, f"{LOSS} * float('nan')", "a loss of nan"),
    Case(L, LOSS, f"{LOSS} / 0", "a loss of inf"),
    Case(L, LOSS, "loss = F.cross_entropy(self(x)[:, :2], y)", "IndexError"),
    Case(L, "x, y = batch", "x, y, z = batch", "ValueError: not enough values"),
    Case(L, "return torch.optim.SGD(self.parameters(), self.lr)", "return 'sgd'", "configure_optimizers"),
    Case(L, "return torch.optim.SGD(self.parameters(), self.lr)", "return None", "no optimiser"),
    Case(L, "", "", "lower its learning rate", FAST),
    Case(L, "super().__init__()", "super().__init__(); self.width = self.hidden", "no attribute 'hidden'"),
    # data
    Case(D, "index = torch.arange(40 * client, 40 * client + 30)", "index = torch.randint(240, (30,))", "another when"),
    Case(D, "self.train, index", "Points(int(torch.randint(9, ()))) if 0 else self.train, index[torch.randperm(30)]",
         "another when"),
    Case(D, SHARD, "return View(((self.train, index),))", "must return a Shard"),
    Case(D, SHARD, "return Shard(self.train, self.test, torch.ones(1))", "a View is needed, got a Points"),
    Case(D, SHARD, SHARD.replace("torch.ones(1)", "torch.ones(3)"), "mixture must be a tensor of 1"),
    Case(D, SHARD, SHARD.replace("(self.test, index)", "(self.train, index[:10]), (self.train, later)"),
         "10 of 20 test"),
    Case(D, "index = torch.arange(40 * client, 40 * client + 30)", "index = torch.arange(30).float()", "whole numbers"),
    Case(D, "index = torch.arange(40 * client, 40 * client + 30)", "index = list(range(30))", "whole numbers"),
    Case(D, "index = torch.arange(40 * client, 40 * client + 30)", "index = torch.arange(-3, 27)", "samples -3 to"),
    Case(D, "index = torch.arange(40 * client, 40 * client + 30)", "index = torch.arange(220, 250)", "to 249"),
    Case(D, "return View(((self.test, torch.arange(200)),))", "return None", "must return a View",
         ("--algorithm", "IFCA", "--algorithm.num_clusters", "2"), "Mine.cluster_test"),
    Case(D, "return 30", "return 31", "size says that it holds 31"),
    Case(D, "torch.arange(240) % 10", "torch.arange(240) % 12", "num_classes is 10"),
    Case(D, "torch.arange(240) % 10", "torch.arange(240) % 10 - 1", "a label is -1"),
    Case(D, "torch.arange(240) % 10", "(torch.arange(240) % 10).float()", "does not tell the class"),
    Case(D, '1, 6, "mine"', '1, 6.0, "mine"', "num_clients must be a whole number"),
    Case(D, '10, (1, 8, 8), 1', '10, (1, 8, 8), 0', "num_clusters must be a whole number"),
    Case(D, "self.train, self.test =", "open('nothing'); self.train, self.test =", "FileNotFoundError"),
    Case(D, "return self.x[index], self.labels[index]", "return self.x[index + 900], self.labels[index]", "IndexError",
         name="Points.take"),
    # hooks
    Case(C, "self.steps = loop.total", "self.steps = loop.length", "AttributeError"),
    Case(C, "if loop.position == loop.total:", "if metrics['nothing']:", "KeyError: 'nothing'"),
    Case(T, "self.seen = trainer.max_epochs", "raise ValueError('odd')", "odd"),
]  # fmt: skip

RIGHT = [
    *(Case(kind, "", "") for kind in KINDS),
    Case(M, 'extra={"spread": 1.0}', 'extra={"spread": torch.tensor(1.0)}'),
    Case(M, MEAN, "rows.double().mean(0, keepdim=True)"),
    Case(M, "{**state.seen, t: len(rows)}", "{'who': [1, None], 'how': ('a', 2.0, torch.ones(2))}"),
    Case(M, INIT, "return State(fed.init_rows(1), {'best': float('nan')})"),
    Case(M, STEP, "return new, Round(cohort, training.results, list(new.models))"),
    Case(M, STEP, "return [new, Round(cohort, training.results, new.models)]"),
    Case(M, "", "", flags=ALL),
    Case(U, ANSWER, "return state, Reply(up.row)"),
    Case(F, "self.head = torch.nn.Linear(64, num_classes)", "self.head = torch.nn.Linear(64, 2 * num_classes)"),
    Case(F, LOGITS, "return self.head(torch.nn.functional.dropout(self.features(x), 0.5, self.training))"),
    Case(L, "return loss", "return {'loss': loss, 'more': x}"),
    Case(L, "return loss", "return loss if batch_idx else None"),
    Case(L, LOSS, f"{LOSS} + 0 * torch.randn(())"),
    Case(D, "return self.x[index], self", "return self.x[index] + torch.randn(len(index), 1, 8, 8), self"),
    Case(D, SHARD, SHARD.replace("self.test, index", "self.train, index"), "tested on samples that they train on"),
    Case(D, SHARD, SHARD.replace("self.test, index", "self.train, later")),
    Case(D, "index = torch.arange(40 * client, 40 * client + 30)",
         "index = torch.randint(240, (30,), generator=torch.Generator().manual_seed(client))"),
]  # fmt: skip
