"""Hooks by which mkdocs finds the pages where the repository has them, and makes the reference.

A page's address on the site is its path in the repository, so that a link is right in both. What is
linked and is no page, such as a module, is linked in the repository on the web.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import harness

REPOSITORY = Path(__file__).resolve().parent.parent
ROOMS = ("docs", "models", "trainers", "examples")
LINK = re.compile(r"(\]\()(?!https?:|#)([^)#\s]+)")
FILE = re.compile(r"^( *```\w+) ([\w./-]+)$", re.MULTILINE)
"""A block of code with the name of its file, which Markdown's extension reads as a title only."""


def pages() -> Iterator[str]:
    """Yield the path of each page, and of each image that pages show, in the repository."""
    found = [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/images/*")]
    found += [path for room in ROOMS for path in (REPOSITORY / room).rglob("*.md")]
    for path in sorted(set(found)):
        if "node_modules" not in path.parts:
            yield path.relative_to(REPOSITORY).as_posix()


def reference() -> str:
    """Return a page with the docstrings of all public names, classes first."""
    where = harness._MODULE_BY_NAME
    paths = [f"{where.get(name, 'harness.api')}.{name}" for name in harness.__all__]
    return "# Values and functions\n\n" + "".join(f"::: {path}\n\n" for path in paths)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace each folder in the navigation by its pages, those that are named being left out."""
    named = set(re.findall(r"[\w./-]+\.md", str(config.nav)))

    def filled(entry: object) -> object:
        match entry:
            case list():
                several = [filled(one) for one in entry]
                return [
                    one for some in several for one in (some if isinstance(some, list) else [some])
                ]
            case dict():
                return {title: filled(one) for title, one in entry.items()}
            case str() if entry.endswith("/"):
                return [page for page in pages() if page.startswith(entry) and page not in named]
        return entry

    config.nav = filled(config.nav)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Put the repository's pages in the place of those of one folder."""
    kept = [one for one in files if one.src_dir != config.docs_dir]  # of the theme and plugins
    made = [File.generated(config, path, abs_src_path=str(REPOSITORY / path)) for path in pages()]
    return Files([*kept, *made, File.generated(config, "reference.md", content=reference())])


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to what is no page to the repository on the web."""
    folder = posixpath.dirname(page.file.src_uri)

    def elsewhere(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        if files.get_file_from_path(target) or not (REPOSITORY / target).exists():
            return link[0]
        kind = "tree" if (REPOSITORY / target).is_dir() else "blob"
        return f"{link[1]}{config.repo_url}/{kind}/main/{target}"

    return FILE.sub(r'\1 title="\2"', LINK.sub(elsewhere, markdown))
