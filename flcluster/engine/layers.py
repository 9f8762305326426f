"""``--config``: files that lie over the files that they name as their bases."""

from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ActionConfigFile, ArgumentParser, Namespace  # type: ignore[attr-defined]

from flcluster.errors import UserError


class WithBases(ActionConfigFile):
    """``--config FILE``: the files that FILE names under ``base``, each after its own bases, then FILE itself."""

    @staticmethod
    def apply_config(parser: ArgumentParser, cfg: Namespace, dest: str, value: str) -> None:
        """Lay a config over what is there; one that is given as text, not by name, has no bases."""
        from flcluster.engine.messages.names import tree_in_own_names

        given = "\n" in value
        for layer in [value] if given else map(str, layers(Path(value))):
            tree = yaml.safe_load(layer if given else Path(layer).read_text(encoding="utf-8"))
            own = tree_in_own_names(tree)
            ActionConfigFile.apply_config(parser, cfg, dest, layer if own is tree else yaml.safe_dump(own))
            cfg.pop("base", None)


def layers(config: Path, over: tuple[Path, ...] = ()) -> list[Path]:
    """Return the files that make up a config, lowest first and each once; ``over`` are those that it is a base of."""
    if config.resolve() in [path.resolve() for path in over]:
        raise UserError(f"--config {over[0]}: base goes round in a circle: {' > '.join(map(str, [*over, config]))}")
    tree = _read(config, over)
    refuse_objects(tree, config)
    names = tree.get("base") or [] if isinstance(tree, dict) else []
    below = [names] if isinstance(names, str) else names
    if not (isinstance(below, list) and all(isinstance(name, str) for name in below)):
        raise UserError(f"--config {config}: base must be a file or a list of files, relative to it, got {names!r}")
    found = [path for name in below for path in layers(config.parent / name, (*over, config))]
    return [*dict.fromkeys(found), config]


def _read(config: Path, over: tuple[Path, ...]) -> Any:
    """Return what a config file says; one that is missing or is not YAML is refused by its name."""
    try:
        return yaml.safe_load(config.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        named = f" (base of {over[-1]})" if over else ""
        raise UserError(f"--config {config}{named} cannot be read: {' '.join(str(error).split())}") from error


def refuse_objects(tree: Any, config: Path) -> None:
    """Refuse a config.yaml that cannot be read back, because a script handed objects over that no file can tell."""
    if isinstance(tree, dict) and tree.get("objects"):
        untold = "; ".join(f"{name}: {why}" for name, why in tree["objects"].items())
        raise UserError(
            f"{config} is of a run of a script, and not all of it can be told in a file ({untold}). "
            f'Go on with it in Python: fl.fit(…, run_dir="{config.parent}", ckpt="last") with the same objects'
        )
