"""The error a user can act on. It stands alone so that the command line can catch it without importing torch."""

Place = tuple[str | int, ...]
"""The way to a setting: keys of mappings and, counted from 0, numbers of list items."""


class UserError(Exception):
    """Something the user can put right: one sentence that names the file and the remedy (exit code 2).

    `where` is the way to the setting at fault, as far as whoever found the mistake knows it.
    """

    def __init__(self, message: str, where: Place = ()):
        super().__init__(message)
        self.where = where

    def within(self, *keys: str | int) -> "UserError":
        """The same error of settings that are part of others, under these keys."""
        return UserError(str(self), (*keys, *self.where))

    def said_of(self, source: str) -> "UserError":
        """The same error, with the name of what holds the settings before its sentence."""
        return UserError(f"{source}: {self}", self.where)
