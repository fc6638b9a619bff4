"""The public API: names, errors, schemas."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from jsonschema import Draft202012Validator

import kb
from kb import errors, wire
from tests import schemas


def test_every_public_name_is_there_and_listed() -> None:
    for name in kb.__all__:
        assert getattr(kb, name) is not None
    assert dir(kb) == sorted(kb.__all__)
    with pytest.raises(AttributeError):
        kb.nosuch  # noqa: B018  (the access is the test)


def test_importing_kb_costs_nothing() -> None:
    code = "import sys, kb; print(*sorted(name for name in sys.modules if name.startswith('kb')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["kb"]


def every(kind: type[errors.KbError]) -> Iterator[type[errors.KbError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from every(below)


def test_every_error_has_its_own_code_and_is_in_the_tree() -> None:
    kinds = list(every(errors.KbError))
    own = [kind.code for kind in kinds if "code" in vars(kind)]  # others are caught inside kb
    assert len(set(own)) == len(own)
    for kind in kinds:
        assert kind.__name__ in (errors.__doc__ or "")
        assert kind.exit_status in (1, 2, 3)
        assert 400 <= kind.http_status < 600
        shape = kind("what happened", "what to do").to_dict()
        schemas.validator("error.v1").validate(shape)


@pytest.mark.parametrize("name", schemas.names())
def test_every_schema_is_valid_and_named_after_its_shape(name: str) -> None:
    Draft202012Validator.check_schema(wire.schema(name))
    assert wire.schema(name)["$id"] == f"urn:kb:{name}"
