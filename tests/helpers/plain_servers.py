"""Upload methods written down plainly, one upload at a time, to compare the loop with.

They hold models as modules and server state as lists.
"""

import copy
import math

import numpy as np
import torch

SEED, EPOCHS, BATCH, PRETRAIN = 11, 2, 16, 2


class Served:
    """What a plain server did with one upload."""

    def __init__(self, reply, estimate=None, deprecated=False):
        self.reply, self.estimate, self.deprecated = reply, estimate, deprecated


class PlainServer:
    """A client's cycle, the same for every method; subclasses are the servers."""

    prox = 0.0

    def __init__(self, plain, data, mlp, **settings):
        self.plain, self.data, self.settings = plain, data, settings
        first = plain.first_model(SEED, mlp)
        self.clusters = [
            self.trained(first, k, data.proxy(k), epochs=PRETRAIN, purpose="pretrain") for k in range(data.num_clusters)
        ]
        self.initial = plain.mixed([1 / data.num_clusters] * data.num_clusters, self.clusters)
        self.t = 0
        self.models = {m: self.initial for m in range(data.num_clients)}
        self.synced = dict.fromkeys(range(data.num_clients), 0)
        self.cycle = dict.fromkeys(range(data.num_clients), 0)
        self.begin()

    def begin(self):
        pass

    def trained(self, module, client, view, cycle=0, epochs=EPOCHS, purpose="train", pulls=()):
        return self.plain.train(
            module,
            lambda m: m.configure_optimizers(),
            view,
            seed=SEED,
            client=client,
            cycle=cycle,
            epochs=epochs,
            batch=BATCH,
            purpose=purpose,
            pulls=pulls,
        )[0]

    def pulls(self, client, view):
        return [(self.prox, self.models[client])] if self.prox else []

    def start(self, client):
        return self.models[client]

    def aged(self, s):
        """Staleness in its unit: a cycle is as many epochs as there are clients."""
        return s if self.settings["staleness_unit"] == "epochs" else s / self.data.num_clients

    def arrive(self, client, refused=False):
        """One client trains on the data of its cycle and uploads; returns (v, accuracy before and after, served)."""
        shard = self.data.shard(client, self.cycle[client])
        view = shard.train
        v = self.trained(self.start(client), client, view, self.cycle[client], pulls=self.pulls(client, view))
        self.cycle[client] += 1
        before = self.plain.accuracy(v, shard.test)
        if refused:
            return v, before, self.plain.accuracy(self.models[client], shard.test), None
        self.t += 1
        served = self.serve(client, v)
        self.models[client], self.synced[client] = served.reply, self.t
        return v, before, self.plain.accuracy(served.reply, shard.test), served

    def lerp(self, k, v, ratio):
        self.clusters[k] = self.plain.mixed([1 - ratio, ratio], [self.clusters[k], v])


def fresh_factor(s, a, b):
    return 1.0 if s < b else 1 / (a * s + 1)


class PlainCDFL(PlainServer):
    ccfl = False

    def begin(self):
        self.prox = self.settings["rho"]
        K = len(self.clusters)
        self.changed, self.known, self.log, self.filtered, self.clamped = [0] * K, {}, [[] for _ in range(K)], 0, 0

    def serve(self, client, v):
        c, K, tau = self.settings, len(self.clusters), self.synced[client]
        if self.t - tau > c["max_staleness"]:
            weights = self.known.get(client, [1 / K] * K)
            return Served(self.plain.mixed(weights, self.clusters), deprecated=True)
        raw = self.measure(v)
        weights = self.estimate(raw)
        top = max(weights)
        for k in range(K):
            if weights[k] < 1 / K - 1e-9:
                continue
            s = self.aged((self.changed[k] if self.ccfl else self.t) - tau)
            if self.ccfl and self.refuses(k, raw[k]):
                self.filtered += 1
                continue
            self.lerp(k, v, c["beta0"] * weights[k] / top * fresh_factor(s, c["a"], c["b"]))
            self.changed[k] = self.t
        for k in range(K):
            self.log[k].append(raw[k])
        self.known[client] = weights
        return Served(self.plain.mixed(weights, self.clusters), estimate=weights)

    def measure(self, v):
        out = []
        for k, w in enumerate(self.clusters):
            loss = self.plain.mean_loss(v, self.data.proxy(k))
            gap = abs(self.plain.mean_loss(w, self.data.proxy(k)) - loss)
            squares = sum(
                float(((p - q).detach().double() ** 2).sum())
                for p, q in zip(v.parameters(), w.parameters(), strict=True)
            )
            out.append((loss, gap, math.sqrt(squares)))
        return out

    def estimate(self, raw):
        c, K = self.settings, len(raw)
        scores = [0.0] * K
        for j, (weight, unit) in enumerate([(c["c1"], 16), (c["c2"], 16), (1 - c["c1"] - c["c2"], 1)]):
            x = [unit * raw[k][j] for k in range(K)]
            bar = min(x) if c["bars"][j] == "min" else c["bars"][j]
            self.clamped += sum(value < bar for value in x)
            x = [max(value - bar, 0.0) for value in x]
            total = sum(x)
            for k in range(K):
                scores[k] += weight * ((total - x[k]) / total if total > 1e-12 else (K - 1) / K) / (K - 1)
        for amplifier in c["amplifiers"]:
            powers = [math.exp(amplifier * value) for value in scores]
            scores = [p / sum(powers) for p in powers]
        return scores

    def refuses(self, k, values):
        """From half of the run on, with at least 20 entries (a lower quantile than 70 % refuses more)."""
        if self.started() < 0.5 or len(self.log[k]) < 20:
            return False
        return any(
            values[j] > np.quantile([past[j] for past in self.log[k]], self.settings["adjust_quantile"])
            for j in range(3)
        )

    def started(self):
        """The share of the run before this upload (no upload is refused in the CCFL test)."""
        return (self.t - 1) / self.settings["total"]


class PlainCCFL(PlainCDFL):
    ccfl = True


class PlainFedSoft(PlainServer):
    """Every client keeps the K models it received and its μ."""

    def begin(self):
        self.received = {m: list(self.clusters) for m in range(self.data.num_clients)}
        self.shares, self.changed = {}, 0

    def pulls(self, client, view):
        losses = torch.stack([self.plain.per_sample(w, view)[0] for w in self.received[client]])
        K, n = losses.shape
        counts = [0.0] * K
        for i in range(n):
            counts[int(losses[:, i].argmin())] += 1
        counts = [count or self.settings["sigma"] * n for count in counts]
        self.shares[client] = [count / sum(counts) for count in counts]
        rho = self.settings["rho"]
        if self.settings["pull"] == "reply":
            return [(rho, self.models[client])]
        return [(rho * mu, w) for mu, w in zip(self.shares[client], self.received[client], strict=True)]

    def serve(self, client, v):
        c, mu, s = self.settings, self.shares[client], self.t - self.synced[client]
        deprecated = s > c["max_staleness"]
        if not deprecated:  # every cluster moves at every such upload
            age = self.aged(s if c["staleness"] == "cdfl" else self.changed - self.synced[client])
            for k in range(len(self.clusters)):
                self.lerp(k, v, c["beta0"] * mu[k] * fresh_factor(age, c["a"], c["b"]))
            self.changed = self.t
        self.received[client] = list(self.clusters)
        return Served(self.plain.mixed(mu, self.clusters), None if deprecated else mu, deprecated)


class PlainFedBuff(PlainServer):
    def begin(self):
        self.model, self.version, self.buffer = self.initial, 0, []
        self.has = dict.fromkeys(range(self.data.num_clients), 0)

    def serve(self, client, v):
        delta = update(self.plain, v, self.models[client], self.model)
        self.buffer.append((1 / math.sqrt(1 + self.version - self.has[client]), delta))
        if len(self.buffer) == self.settings["buffer_size"]:
            step = sum(weight * delta for weight, delta in self.buffer) / len(self.buffer)
            self.model = moved(self.model, self.settings["server_lr"] * step)
            self.version, self.buffer = self.version + 1, []
        self.has[client] = self.version
        return Served(self.model)


class PlainFedAsync(PlainServer):
    """Algorithm 1 of Xie et al.: the whole history of models is kept, and every time stamp with its client."""

    def begin(self):
        self.prox = self.settings["rho"]
        self.history, self.stamp = [self.initial], dict.fromkeys(range(self.data.num_clients), 0)

    def s(self, late):
        a, b = self.settings["a"], self.settings["b"]
        if self.settings["staleness"] == "hinge":
            return 1 if late <= b else 1 / (a * (late - b) + 1)
        return 1 if self.settings["staleness"] == "constant" else (late + 1) ** -a

    def serve(self, client, v):
        late = len(self.history) - 1 - self.stamp[client]
        share = self.settings["alpha"] * self.s(late)
        self.late = [*getattr(self, "late", []), late]
        self.history.append(self.plain.mixed([1 - share, share], [self.history[-1], v]))
        self.stamp[client] = len(self.history) - 1
        return Served(self.history[-1])


class PlainCA2FL(PlainServer):
    def begin(self):
        self.model, self.acc, self.count = self.initial, 0.0, 0
        self.caches = [torch.zeros_like(self.plain.vector(self.initial)) for _ in range(self.data.num_clients)]
        self.h = torch.zeros_like(self.caches[0])

    def serve(self, client, v):
        delta = update(self.plain, v, self.models[client], self.model)
        self.acc = self.acc + delta - self.caches[client]
        self.caches[client] = delta.clone()
        self.caches[client][size_of(v) :] = 0  # statistics are averaged, not calibrated
        self.count += 1
        if self.count == self.settings["buffer_size"]:
            self.model = moved(self.model, self.settings["server_lr"] * (self.h + self.acc / self.count))
            self.h = sum(self.caches) / len(self.caches)
            self.acc, self.count = 0.0, 0
        return Served(self.model)


class PlainLocal(PlainServer):
    def begin(self):
        self.prox = self.settings["rho"]

    def start(self, client):
        return self.initial if self.settings["start"] == "common" else self.models[client]

    def pulls(self, client, view):
        return [(self.prox, self.start(client))]

    def serve(self, client, v):
        return Served(v)


def size_of(module):
    return sum(p.numel() for p in module.parameters())


def update(plain, v, start, model):
    """Δ = v − start; of running statistics v − model, so that steps move them towards a mean of uploads."""
    p = size_of(v)
    return torch.cat([(plain.vector(v) - plain.vector(start))[:p], (plain.vector(v) - plain.vector(model))[p:]])


def moved(module, step):
    out = copy.deepcopy(module)
    places = [*out.parameters(), *(buffer for buffer in out.buffers() if buffer.is_floating_point())]
    with torch.no_grad():
        for place, part in zip(places, step.split([place.numel() for place in places]), strict=True):
            place += part.view_as(place)
    return out
