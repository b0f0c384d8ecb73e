"""Shows each notebook in docs/ as a page: its text and its code. `tutorial.ipynb` becomes the page
`tutorial-notebook.md`.
"""

import json
from pathlib import PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each notebook."""
    for file in list(files):
        path = PurePosixPath(file.src_uri)
        if path.suffix == ".ipynb":
            notebook = json.loads(file.content_string)
            content = notebook_page(notebook, path.name)
            files.append(File.generated(config, f"{path.stem}-notebook.md", content=content))
    return files


def notebook_page(notebook: dict[str, Any], name: str) -> str:
    """The cells of a notebook as Markdown, with a link to the file after the first cell."""
    parts = [_cell(cell) for cell in notebook["cells"]]
    parts.insert(1, f"[Download the notebook]({name})")
    return "\n\n".join(parts) + "\n"


def _cell(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "code":
        return f"```python\n{source}\n```"
    return source
