"""Helpers of the tests of studies: changes to a study file, and the tables a study wrote."""


def replace_text(file, old, new):
    """Replace every occurrence of `old`, which must be there."""
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new))


def read_tables(out):
    """The bytes of all tables of a study by file name, without those of costs (times vary)."""
    return {file.name: file.read_bytes() for file in (out / "tables").iterdir()}
