"""`segpl doctor`."""

import json as json_module
import sys
from pathlib import Path
from typing import Annotated

import typer

from segpl import api
from segpl.cli.exits import DONE, WRONG_INPUT
from segpl.cli.next_commands import answer_folder, show_next


def doctor(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Data folder.")],
    fix: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write a copy with the unambiguous problems fixed."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> int:
    """Check a data folder: what is in it, what is wrong with it, what training would use.

    The exit code is 2 if there are problems.
    """
    from segpl.diagnosis.fix import write_fixed
    from segpl.diagnosis.summary import as_json, print_diagnosis

    diagnosis = api.doctor(data)
    if json:
        print(json_module.dumps(as_json(diagnosis), indent=2))
    else:
        print_diagnosis(diagnosis)
    if fix:
        for sentence in write_fixed(diagnosis, fix):
            print(sentence, file=sys.stderr)
        print(f"repaired copy in {fix}", file=sys.stderr)
        show_next(["segpl", "doctor", fix])
    elif not diagnosis.problems:
        show_next(["segpl", "run", data, "--out", answer_folder(data)])
    return WRONG_INPUT if diagnosis.problems else DONE
