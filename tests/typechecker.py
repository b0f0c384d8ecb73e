"""How shapes and types are checked under pytest: an int is accepted as a float."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
