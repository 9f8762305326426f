"""The page of results, made from gathered runs, claims and a template that has the words but none of the numbers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError
from matplotlib.figure import Figure

from flcluster.errors import UserError
from flcluster.files import between, replacing
from flcluster.report.claims.pictures import Pictures, save_drawn
from flcluster.report.claims.results import Results

WORDS = ("has", "value", "gap", "printed", "table", "claims", "counts")
"""What a template may ask of the results."""
BEGIN, END = "<!-- made by flcluster claims -->", "<!-- end of what flcluster claims makes -->"
"""Where a page has these lines, only what stands between them is made."""
PLACE = "images/results"
"""The folder of a page's pictures, beside it."""


@dataclass(frozen=True)
class Page:
    """A page that was made."""

    text: str
    pictures: Mapping[str, Figure]
    """Name of a file -> what is drawn in it."""


def render(results: Results, name: str) -> Page:
    """Return a page and its pictures, made from the template ``NAME.in``."""
    template = results.folder / f"{name}.in"
    if not template.exists():
        raise UserError(f"{template} is missing: a page is made from a template of its name")
    environment = Environment(
        loader=FileSystemLoader(results.folder), undefined=StrictUndefined, trim_blocks=True, autoescape=False
    )
    pictures = Pictures(results, PLACE)
    environment.globals |= {word: getattr(results, word) for word in WORDS}
    environment.globals |= {"lines": pictures.lines, "bars": pictures.bars}
    try:
        text = environment.get_template(template.name).render()
    except TemplateError as error:
        line = getattr(error, "lineno", None)
        where = f", line {line}" if line else ""
        raise UserError(f"{template}{where}: {error}") from error
    return Page(re.sub(r"\n{3,}", "\n\n", text).strip() + "\n", pictures.drawn)


def placed(page: str, made: str) -> str:
    """Return a page with what was made between its two marks; what was made alone where it has none."""
    found = between(page, BEGIN, END, made)
    return made if found is None else found


def write_page(results: Results, path: Path) -> None:
    """Write a page, or its part between two marks, and the pictures beside it."""
    page = render(results, path.name)
    for name, figure in page.pictures.items():
        save_drawn(figure, path.parent / PLACE / name)
    text = placed(path.read_text(encoding="utf-8") if path.exists() else "", page.text)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
