"""The tutorial notebook runs, and its results show themselves."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parent.parent / "docs/tutorial.ipynb"
SHOWN = {
    "segpl.doctor(data)": "No problem found.",
    "run": "Trained run",
    "scores": "Foreground IoU in %",
    'segpl.compare(folder / "runs")': "Difference from supervised",
    "predictions": "data:image/png;base64,",
    "prediction": "data:image/png;base64,",
    "segpl.rank(run)": "<td>1</td>",
    'segpl.report(folder / "runs")': "report.html",
}
"""What the last line of a cell shows."""


def html_of(cell):
    """How the value of the last line shows itself; progress is shown before it."""
    for output in cell.outputs:
        if output.output_type == "execute_result":
            return output["data"].get("text/html", "")
    return ""


@pytest.mark.slow
def test_the_tutorial_runs_and_every_result_shows_itself(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=1200).execute()
    shown = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            shown[cell.source.splitlines()[-1]] = html_of(cell)
    for line, expected in SHOWN.items():
        assert expected in shown[line], line
