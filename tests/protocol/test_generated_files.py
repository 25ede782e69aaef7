"""Generated files match the table, and importing the table is cheap."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from deputy_protocol.command_table import COMMANDS
from deputy_protocol.generate import OUTPUTS, ROOT, main, stale
from deputy_protocol.methods import METHODS


def test_generated_files_are_up_to_date() -> None:
    assert [str(path) for path in stale(ROOT)] == [], "run: python -m deputy_protocol.generate"


def test_generate_writes_every_file_and_leaves_none_stale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"], tmp_path) == 1
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert main([], tmp_path) == 0
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()} == {
        output.path for output in OUTPUTS
    }
    capsys.readouterr()
    assert main(["--check"], tmp_path) == 0
    assert capsys.readouterr().out == ""


def test_check_names_a_changed_file_and_does_not_write_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([], tmp_path)
    manual = tmp_path / "docs/protocol.md"
    manual.write_text("mine", "utf-8")
    capsys.readouterr()
    assert main(["--check"], tmp_path) == 1
    assert capsys.readouterr().out == "stale: docs/protocol.md\n"
    assert manual.read_text("utf-8") == "mine"


def test_schema_is_valid_and_has_no_dangling_references() -> None:
    schema = json.loads((ROOT / OUTPUTS[0].path).read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    text = json.dumps(schema)
    used = {part.split('"')[0] for part in text.split('"#/$defs/')[1:]}
    assert used <= set(schema["$defs"])


def test_protocol_page_contains_everything_and_has_no_dangling_links() -> None:
    text = (ROOT / "docs/protocol.md").read_text("utf-8")
    headings = [line.lstrip("#").strip() for line in text.splitlines() if line.startswith("#")]
    assert {*(item.name for item in METHODS), *(f"Command {item.name}" for item in COMMANDS)} <= set(headings)
    anchors = ["".join(c for c in h.lower().replace(" ", "-") if c.isalnum() or c in "-_") for h in headings]
    assert len(anchors) == len(set(anchors))
    assert {part.partition(")")[0] for part in text.split("](#")[1:]} <= set(anchors)


def test_importing_the_table_imports_neither_payloads_nor_generator() -> None:
    code = (
        "import sys, deputy_protocol.methods; print(*(m for m in sys.modules if m.startswith(('deputy_', 'pydantic'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert set(done.stdout.split()) == {"deputy_protocol", "deputy_protocol.contract", "deputy_protocol.methods"}


def test_payload_module_is_imported_on_first_access() -> None:
    import deputy_protocol

    assert deputy_protocol.metrics.MetricsResult.__name__ == "MetricsResult"
    with pytest.raises(AttributeError, match="nonsense"):
        deputy_protocol.nonsense  # noqa: B018 # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
