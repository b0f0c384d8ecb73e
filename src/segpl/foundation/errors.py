"""The error a user can act on. It stands alone so that the command line can catch it without importing torch."""


class UserError(Exception):
    """Something the user can put right: one sentence that names the file and the remedy (exit code 2)."""
