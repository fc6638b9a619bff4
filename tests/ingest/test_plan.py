from __future__ import annotations

from pathlib import Path

import pytest

from kb.errors import PathMissing
from kb.ingest.plan import Plan, ScanTarget, contains, is_missing, make_plan
from kb.types import Root


def nothing(root: Root, path: str) -> bool:
    return False


def root_at(path: Path, *, whole: bool = True) -> Root:
    return Root(1, path.name, str(path), whole)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    (tmp_path / "outer" / "inner" / "a.md").write_text("text")
    return tmp_path / "outer"


def test_no_paths(folder: Path) -> None:
    root = root_at(folder)
    assert make_plan([], [root], nothing) == Plan((ScanTarget(str(folder), True, root),))


def test_a_new_folder(folder: Path) -> None:
    assert make_plan([folder], [], nothing).targets == (ScanTarget(str(folder), True, None),)


def test_a_new_folder_in_another(folder: Path) -> None:
    asked = [folder / "inner" / "a.md", folder / "inner", folder]
    assert make_plan(asked, [], nothing).targets == (ScanTarget(str(folder), True, None),)


def test_a_part_of_a_root(folder: Path) -> None:
    root = root_at(folder)
    expected = ScanTarget(str(folder), True, root, "inner")
    assert make_plan([folder / "inner"], [root], nothing).targets == (expected,)


def test_the_roots_inside_are_visited_too(folder: Path) -> None:
    inner = root_at(folder / "inner")
    assert make_plan([folder], [inner], nothing).targets == (
        ScanTarget(str(folder), True, None),
        ScanTarget(str(folder / "inner"), True, inner),
    )


def test_a_single_file(folder: Path) -> None:
    file = folder / "inner" / "a.md"
    new = ScanTarget(str(folder / "inner"), False, None, "a.md")
    assert make_plan([file], [], nothing).targets == (new,)
    single = root_at(folder, whole=False)
    known = ScanTarget(str(folder), False, single, "inner/a.md")
    assert make_plan([file], [single], nothing).targets == (known,)


def test_a_single_file_stays_with_the_root_that_has_it(folder: Path) -> None:
    file = folder / "inner" / "a.md"
    whole, single = root_at(folder), root_at(folder / "inner", whole=False)
    assert make_plan([file], [whole, single], nothing).targets[0].root == whole
    assert make_plan([file], [whole, single], lambda *_: True).targets[0].root == single


def test_missing(folder: Path) -> None:
    root, away = root_at(folder), root_at(folder / "away")
    plan = make_plan([folder / "gone"], [root], everything)
    assert plan == Plan(
        (ScanTarget(str(folder), True, root, "gone"),)
    )  # scanned, and therefore removed
    missing = folder / "away" / "gone"
    assert make_plan([missing], [away], everything) == Plan((), (str(missing),))
    for roots in ([], [root]):
        with pytest.raises(PathMissing):
            make_plan([folder / "gone"], roots, nothing)


def everything(root: Root, path: str) -> bool:
    return True


def test_contains() -> None:
    assert contains("/a", "/a")
    assert contains("/a", "/a/b")
    assert contains("/", "/a")
    assert not contains("/a", "/ab")


def test_is_gone(folder: Path) -> None:
    assert not is_missing(root_at(folder))
    assert is_missing(root_at(folder / "gone"))
    assert is_missing(root_at(folder / "inner" / "a.md"))
