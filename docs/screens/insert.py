"""Puts the screens of this folder into docs/terminal-ui.md and README.md: each block after `<!-- screen NAME -->` becomes NAME.txt."""

import pathlib
import re

here = pathlib.Path(__file__).resolve().parent
pages = [here.parent / "terminal-ui.md", here.parent.parent / "README.md"]


def block(match: re.Match) -> str:
    screen = (here / f"{match[1]}.txt").read_text().rstrip("\n")
    return f"<!-- screen {match[1]} -->\n```text\n{screen}\n```"


for page in pages:
    text = page.read_text()
    page.write_text(re.sub(r"<!-- screen (\S+) -->\n```text\n.*?\n```", block, text, flags=re.DOTALL))
