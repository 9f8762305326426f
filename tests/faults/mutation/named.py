"""Faults that no test noticed once, tried beside those that are drawn."""

from mutants import ROOT, Mutant

CDFL, UPLOADS = "algorithms/uploads/cdfl.py", "flcluster/engine/loops/uploads.py"
NAMED = {
    "CDFL's distances count statistics too": (CDFL, "w[:p] - up.row[:p]", "w - up.row"),
    "CDFL's statistics do not move": (
        CDFL,
        "clusters[k].lerp_(up.row, ",
        "clusters[k][: fed.layout.num_parameters].lerp_(up.row[: fed.layout.num_parameters], ",
    ),
    "FedSoft's statistics do not move": (
        "algorithms/uploads/fedsoft.py",
        "clusters = torch.lerp(clusters, up.row, ratios.to(clusters)[:, None])",
        "clusters = torch.cat([torch.lerp(clusters, up.row, ratios.to(clusters)[:, None])"
        "[:, : fed.layout.num_parameters], clusters[:, fed.layout.num_parameters :]], 1)",
    ),
    "differences of statistics are summed": (
        "algorithms/uploads/fedbuff.py",
        "row[parameters:] - model[parameters:]",
        "row[parameters:] - start[parameters:]",
    ),
    "CA2FL calibrates statistics": ("algorithms/uploads/ca2fl.py", "cached[p:] = 0", "pass"),
    "NaN losses are taken in": (UPLOADS, "bool(up.seen.isfinite().all())", "True"),
    "the filter looks at a history with the upload in it": (
        CDFL,
        "passes_filter(state.history, ",
        "passes_filter(state.history.added(measured), ",
    ),
    "what the filter refuses is not remembered": (
        CDFL,
        "state.history.added(measured) if keep else",
        "state.history.added(measured) if keep and bool(passes.all()) else",
    ),
    "Auxo's child is the first model": (
        "algorithms/drift/auxo.py",
        "torch.cat([state.models, state.models[k : k + 1]])",
        "torch.cat([state.models, state.models[:1]])",
    ),
    "Auxo's child is the mean of all models": (
        "algorithms/drift/auxo.py",
        "torch.cat([state.models, state.models[k : k + 1]])",
        "torch.cat([state.models, state.models.mean(0, keepdim=True)])",
    ),
    "distance to the nearest centre": (
        "algorithms/drift/fielding.py",
        "own = between[np.arange(len(clients)), state.labels[clients].numpy()]",
        "own = between.min(1)",
    ),
}
"""What is wrong: the file, a text that stands in it once, and what it becomes."""


def named() -> list[Mutant]:
    """Return them; a text that is gone is an error, since the fault must be written anew."""
    found = []
    for what, (path, old, new) in NAMED.items():
        source = (ROOT / path).read_text()
        if source.count(old) != 1:
            raise SystemExit(f"tests/faults/mutation/named.py: {old!r} stands {source.count(old)} times in {path}")
        before = source[: source.index(old)]
        start, line = len(before.encode()), before.count("\n") + 1
        lines = line, line + old.count("\n")
        found.append(Mutant(path, line, "named", what, start, start + len(old.encode()), new, lines))
    return found
