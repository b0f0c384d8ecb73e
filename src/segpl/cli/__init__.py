"""The command line: thin, and nothing heavy is imported until a command runs."""

import sys
import tempfile
import traceback

from segpl.cli.parser import command_line
from segpl.foundation.errors import UserError


def main() -> None:
    """Run a command. Exit codes: 0 done; 2 the input is wrong, in one sentence; 1 anything else."""
    options = command_line().parse_args()
    try:
        options.function(options)
    except UserError as error:
        sys.exit(_complain(str(error), 2))
    except OSError as error:
        name = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        sys.exit(_complain(f"{name}: check the path, the disk, and that you may write there.", 2))
    except KeyboardInterrupt:
        sys.exit(_complain("stopped. A training goes on from its last checkpoint with --resume.", 1))
    except Exception as error:
        with tempfile.NamedTemporaryFile("w", prefix="segpl-", suffix=".log", delete=False) as log:
            log.write(traceback.format_exc())
        sys.exit(_complain(f"this should not have happened: {error!r}. Please report it with {log.name}.", 1))


def _complain(message: str, code: int) -> int:
    print(f"segpl: {message}", file=sys.stderr)
    return code
