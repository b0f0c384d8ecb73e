"""How shapes and types are checked under pytest: an int may stand where a float is expected, as Python has it."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
