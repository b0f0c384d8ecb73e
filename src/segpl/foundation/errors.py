"""The error that a user can correct. Importing it is fast: the command line catches it always."""

KeyPath = tuple[str | int, ...]
"""Path to a setting: keys of mappings and indices of list items, counted from 0."""


class UserError(Exception):
    """A mistake in the user's input: one sentence that names the file and the remedy (exit code 2).

    `where` is the path to the wrong setting, as far as it is known.
    """

    def __init__(self, message: str, where: KeyPath = ()):
        super().__init__(message)
        self.where = where

    def within(self, *keys: str | int) -> "UserError":
        """The same error, for settings that are nested in others under these keys."""
        return UserError(str(self), (*keys, *self.where))

    def prefixed_with(self, source: str) -> "UserError":
        """The same error, with the name of the file or object that holds the settings in front."""
        return UserError(f"{source}: {self}", self.where)
