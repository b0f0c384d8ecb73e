"""`segpl doctor`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from segpl import api
from segpl.cli.exits import DONE, WRONG_INPUT
from segpl.cli.next_commands import answer_folder, show_next
from segpl.cli.options import AsJson, print_json


def doctor(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Data folder.")],
    fix: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write a copy with the unambiguous problems fixed."),
    ] = None,
    json: AsJson = False,
) -> int:
    """Check a data folder: what is in it, what is wrong with it, what training would use.

    The exit code is 2 if there are problems.
    """
    from segpl.diagnosis.fix import write_fixed
    from segpl.diagnosis.summary import as_json, print_diagnosis

    diagnosis = api.doctor(data)
    if json:
        print_json(as_json(diagnosis))
    else:
        print_diagnosis(diagnosis)
    if fix:
        for sentence in write_fixed(diagnosis, fix):
            print(sentence, file=sys.stderr)
        print(f"repaired copy in {fix}", file=sys.stderr)
        show_next(["segpl", "doctor", fix])
    elif diagnosis.dataset and diagnosis.problems:
        fixed = data.with_name(f"{data.resolve().name}-fixed")
        show_next(["segpl", "doctor", data, "--fix", fixed])
    elif diagnosis.problems:
        show_next(["segpl", "doctor", data], comment="once you have followed the advice")
    elif not diagnosis.problems:
        show_next(["segpl", "run", data, "--out", answer_folder(data)])
    return WRONG_INPUT if diagnosis.problems else DONE
