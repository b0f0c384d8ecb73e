"""Shows files of the repository that a page links to, such as `../src/segpl/em/bound.py`.

The same link works where the repository is browsed and on the site, where it leads to a page that
shows the file. `CONTRIBUTING.md` and `CHANGELOG.md` become pages of the site. All pages that are
written by hand are in one folder, so a link to the repository begins with one `../`.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
SOURCE = "source/"
"""The folder of the site with the files that are shown."""
LINK = re.compile(r"\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".toml": "toml"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file outside docs/ that a page links to, and the project's own pages."""
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=_page_from_root(ROOT / name)))
    shown: set[str] = set()
    for file in files.documentation_pages():
        for link in LINK.finditer(file.content_string):
            path = _path_in_repository(link)
            if path is not None and path not in PAGES:
                shown.add(path)
    for path in sorted(shown):
        source = File.generated(config, f"{SOURCE}{path}.md", content=_source_page(path))
        source.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(source)
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """The page with its links to files of the repository led to the pages that show them."""
    if page.file.src_uri.startswith(SOURCE):
        return markdown
    return LINK.sub(_link_on_site, markdown)


def _path_in_repository(link: re.Match[str]) -> str | None:
    """The path that a link to a file outside docs/ means; None for other links."""
    target = link["target"]
    if not target.startswith("../"):
        return None
    path = target.removeprefix("../")
    if not (ROOT / path).is_file():
        raise PluginError(f"a page links to {target}, which is not a file of the repository.")
    return path


def _link_on_site(link: re.Match[str]) -> str:
    path = _path_in_repository(link)
    if path is None:
        return link[0]
    if path in PAGES:
        return f"]({PAGES[path]}{link['anchor'] or ''})"
    return f"]({SOURCE}{path}.md)"


def _page_from_root(file: Path) -> str:
    """A Markdown file of the repository's root, with links as a page in docs/ has them."""

    def link_from_docs(link: re.Match[str]) -> str:
        target = link["target"]
        if "://" in target:
            return link[0]
        target = target.removeprefix("docs/") if target.startswith("docs/") else f"../{target}"
        return f"]({target}{link['anchor'] or ''})"

    return LINK.sub(link_from_docs, file.read_text(encoding="utf-8"))


def _source_page(path: str) -> str:
    """A page with the contents of a file, which the search of the site leaves out."""
    file = ROOT / path
    language = LANGUAGES.get(file.suffix, "text")
    code = file.read_text(encoding="utf-8")
    return f"---\nsearch:\n  exclude: true\n---\n\n# {path}\n\n~~~~{language}\n{code}~~~~\n"
