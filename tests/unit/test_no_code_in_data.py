"""C-84: no value reaches SQL as text of the statement; no pickle, `eval`, or import by stored name."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for room in ("graph", "nodes", "checkpoints") for path in (ROOT / room).rglob("*.py"))

# Statements that are put together, each from words that stand in the code or in `views.sql`.
PUT_TOGETHER = {"views.py", "doorbell.py", "doctor.py", "setup.py", "run_schema.py"} | {
    "m0002_more_of_what_began_a_run.py"
}
# What a person names on the command line or in a setting, and names that stand in the code.
IMPORTS_BY_NAME = {"apps.py", "__init__.py", "builtin_types.py", "models.py"}
UNSAFE_MODULES = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle"}


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            function = node.func
            name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
            yield name, node


def test_c84_the_sources_are_there():
    assert len(SOURCES) > 150


@pytest.mark.parametrize("name", sorted({path.name for path in SOURCES}))
def test_c84_statements_are_built_from_values_and_never_from_their_text(name):
    for path in (one for one in SOURCES if one.name == name):
        for called, node in calls(path):
            is_sql = called == "exec_driver_sql" or (called == "text" and isinstance(node.func, ast.Name))
            if not is_sql or not node.args or "sqlalchemy" not in path.read_text(encoding="utf-8"):
                continue
            literal = isinstance(node.args[0], ast.Constant)
            assert literal or name in PUT_TOGETHER, f"{path}:{node.lineno}"


@pytest.mark.parametrize("name", sorted({path.name for path in SOURCES}))
def test_c84_nothing_unpickles_evaluates_or_imports_by_a_stored_name(name):
    for path in (one for one in SOURCES if one.name == name):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {
            alias.name.partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in ([ast.alias(node.module or "")] if isinstance(node, ast.ImportFrom) else node.names)
        }
        assert not imported & UNSAFE_MODULES, path
        for called, node in calls(path):
            assert called not in ("eval", "exec", "__import__") or isinstance(node.func, ast.Attribute), (
                f"{path}:{node.lineno}"
            )
            if called == "import_module":
                assert name in IMPORTS_BY_NAME, f"{path}:{node.lineno}"
