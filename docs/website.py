"""Builds the documentation website: `make site`, then open build/site/index.html.

    pages of docs/ and some outside it: README, CHANGELOG, model card, ...
      -> build/site-source   links rewritten for the website, navigation added
      -> build/site          built by Zensical; a warning, such as a broken link, is an error

Pages are written for GitHub's view of the repository. The navigation follows the order of
`docs/index.md`, which links to all pages.
"""

from __future__ import annotations

import json
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path

from markdown_it import MarkdownIt

REPOSITORY = Path(__file__).resolve().parents[1]
DOCS = REPOSITORY / "docs"
SOURCE = REPOSITORY / "build" / "site-source"
SITE = REPOSITORY / "build" / "site"

# Pages outside docs/, with their paths in the website.
OUTSIDE = {
    "README.md": "readme.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
    "MODEL_CARD.md": "explanation/encoder.md",
    "training/README.md": "explanation/training.md",
    "examples/README.md": "examples.md",
}
SECTIONS = {
    "Home": ("index.md", "readme.md", "contributing.md", "security-policy.md"),
    "Tutorial": ("tutorial.md", "examples.md"),
    "How to": ("how-to/*",),
    "Figures": ("explanation/figures.md",),
    "Explanation": ("explanation/*",),
    "Reference": ("reference/*",),
    "Decisions": ("decisions/*",),
    "Changelog": ("changelog.md",),
}
TABS = ("Home", "Tutorial", "How to", "Explanation", "Reference", "Decisions", "Figures",
        "Changelog")  # fmt: skip

SHOWN = ("docs/assets/", "docs/pictures/")  # folders with files that pages may load
ROOTED = ("404.html", "sitemap.xml")  # need a fixed address, which this website does not have

_LINK = re.compile(r"(?<=\]\()[^()\s]+(?=\))")
_TITLED_LINK = re.compile(r"\[([^\[\]]+)\]\(([^()\s#]+\.md)\)")
_FENCE = re.compile(r"^( *`{3,})(\S*)(?: (.+))?$")
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_INCLUDED = re.compile(r"^<!-- site: the section (.+) of (\S+) -->$", re.MULTILINE)


def main() -> int:
    pages = site_paths()
    missing = [name for name in pages if not (REPOSITORY / name).is_file()]
    if missing:
        sys.exit(f"no such page: {', '.join(missing)}")
    stage(pages)
    return build()


def site_paths() -> dict[str, str]:
    """Every page's path in the website, by its path in the repository."""
    inside = sorted(DOCS.rglob("*.md"))
    return {
        **{f"docs/{_name(page, DOCS)}": _name(page, DOCS) for page in inside},
        **OUTSIDE,
    }


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def stage(pages: Mapping[str, str]) -> None:
    """Write the sources of the website to a separate folder."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    for name, place in pages.items():
        path = SOURCE / "pages" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(name, pages), encoding="utf-8", newline="\n")
    for folder in SHOWN:
        shown = SOURCE / "pages" / folder.removeprefix("docs/")
        shutil.copytree(REPOSITORY / folder, shown, ignore=shutil.ignore_patterns("*.json"))
    settings = (DOCS / "website.toml").read_text(encoding="utf-8")
    (SOURCE / "website.toml").write_text(settings + navigation(pages), encoding="utf-8")


def build() -> int:
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    done = subprocess.run(
        [*command, "--config-file", str(SOURCE / "website.toml")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    if done.returncode:
        message, _, _ = _COLOUR.sub("", done.stdout).partition("Traceback")
        sys.stderr.write(message or done.stdout)
        return 1
    for name in ROOTED:
        (SOURCE / "site" / name).unlink()
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.move(SOURCE / "site", SITE)
    sys.stdout.write(f"{SITE.relative_to(REPOSITORY)}/index.html\n")
    return 0


# --- a page ---------------------------------------------------------------------------------------


def page(name: str, pages: Mapping[str, str]) -> str:
    text = (REPOSITORY / name).read_text(encoding="utf-8")
    text = _INCLUDED.sub(lambda match: section(match[2], match[1], name), text)
    return "".join(convert_lines(indent_items(text), lambda link: site_link(link, name, pages)))


def section(page: str, heading: str, into: str) -> str:
    """The section below a heading of a page, with links relative to another page."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    _, separator, rest = text.partition(f"\n## {heading}\n")
    if not separator:
        sys.exit(f"{page} has no section {heading!r}, which {into} includes")
    body, _, _ = rest.partition("\n## ")
    return _LINK.sub(lambda link: relative_link(link[0], page, into), body.strip())


def relative_link(link: str, page: str, into: str) -> str:
    """A link of one page, relative to another page."""
    if _is_elsewhere(link):
        return link
    target = posixpath.join(posixpath.dirname(page), link)
    return posixpath.relpath(target, posixpath.dirname(into) or ".")


def site_link(link: str, name: str, pages: Mapping[str, str]) -> str:
    """A link for the website. Checks files itself, since Zensical checks only pages."""
    path, mark, fragment = link.partition("#")
    if _is_elsewhere(link) or not path:
        return link
    target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
    place = pages.get(target) or target.removeprefix("docs/")
    if not target.endswith(".md") and not target.startswith(SHOWN):
        sys.exit(f"{name}: {link} is not in the site")
    if not (REPOSITORY / target).exists() and target.startswith(SHOWN):
        sys.exit(f"{name}: {link} does not exist")
    here = posixpath.dirname(pages[name])
    return posixpath.relpath(place, here or ".") + mark + fragment


def _is_elsewhere(link: str) -> bool:
    return link.startswith(("#", "https:", "http:", "mailto:"))


def indent_items(text: str) -> str:
    """Lists as Zensical's Markdown needs them: the content of an item is indented by four columns,
    and a blank line follows an item of several paragraphs."""
    lines = text.splitlines(keepends=True)
    shift, apart, ended = [0] * len(lines), set[int](), dict[int, bool]()
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type != "list_item_open" or token.map is None:
            continue
        start, end = token.map
        if ended.get(start):
            apart.add(start)
        ended[end] = any(not line.strip() for line in lines[start:end])
        for number in range(start + 1, end):
            shift[number] += max(0, 4 - len(f"{token.info}{token.markup} "))
    return "".join(
        "\n" * (number in apart) + (" " * shift[number] if line.strip() else "") + line
        for number, line in enumerate(lines)
    )


def convert_lines(text: str, convert_link: Callable[[str], str]) -> Iterator[str]:
    """The lines of a page with converted links, and with file names as titles of code blocks. Code
    blocks stay unchanged."""
    fence = ""
    for line in text.splitlines(keepends=True):
        match = _FENCE.match(line.rstrip("\n"))
        if fence:
            fence = "" if line.rstrip("\n") == fence else fence
            yield line
        elif match:
            fence = match[1]
            title = f' title="{match[3]}"' if match[3] else ""
            yield f"{match[1]}{match[2] or 'text'}{title}\n"
        else:
            yield _LINK.sub(lambda link: convert_link(link[0]), line)


# --- the navigation -------------------------------------------------------------------------------


def navigation(pages: Mapping[str, str]) -> str:
    """The tabs and their pages, in TOML."""
    titles = page_titles(pages)
    groups: dict[str, list[tuple[str, str]]] = {tab: [] for tab in TABS}
    for place, title in titles.items():
        groups[_tab(place)].append((title, place))
    return "".join(f"\n[[project.nav]]\n{_entry(tab, groups[tab])}\n" for tab in TABS)


def page_titles(pages: Mapping[str, str]) -> dict[str, str]:
    """The title of every page by its path: first those in `docs/index.md`, then the others."""
    titles = {"index.md": "Documentation"}
    for title, link in _TITLED_LINK.findall((DOCS / "index.md").read_text(encoding="utf-8")):
        target = posixpath.normpath(posixpath.join("docs", link))
        if target in pages:
            titles.setdefault(pages[target], title[0].upper() + title[1:])
    for name, place in pages.items():
        titles.setdefault(place, heading(REPOSITORY / name))
    return titles


def heading(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith("# "))[2:].replace("`", "")


def _tab(place: str) -> str:
    for tab, patterns in SECTIONS.items():
        if any(fnmatch(place, pattern) for pattern in patterns):
            return tab
    sys.exit(f"{place} is in no section of docs/website.py")


def _entry(tab: str, group: Iterable[tuple[str, str]]) -> str:
    entries = [f"{{ {json.dumps(title)} = {json.dumps(place)} }}" for title, place in group]
    if len(entries) == 1:
        return f"{json.dumps(tab)} = {json.dumps(next(iter(group))[1])}"
    return f"{json.dumps(tab)} = [{', '.join(entries)}]"


if __name__ == "__main__":
    sys.exit(main())
