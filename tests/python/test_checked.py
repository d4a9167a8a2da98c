"""docs/python.md tells whose code the mechanisms were compared with; it must be what the tests do."""

import checked

import fovea


def test_the_table_is_what_the_tests_do():
    (found,) = checked.TABLE.findall(checked.PAGE.read_text())
    assert found == checked.table(), "write it anew: tests/python/checked.py"


def test_many_mechanisms_are_in_it():
    names = {mechanism.partition(":")[0] for mechanism, *_ in (*checked.marked(), *checked.written())}
    assert names <= {info.name for info in fovea.list_mechanisms()}
    assert len(names) >= 24
