#!/bin/sh
# pytest-copie 0.3.1 with Copier 9.19.1
#
# Copier's `!include` in copier.yml may be a pattern: `!include rows/*.yml` reads all files that match,
# and Copier renders the template. The `copie` fixture has a reader of its own, which takes the
# pattern for the name of a file, and adds it to PyYAML's SafeLoader for the whole process.
# Seen: Copier 2 rows; copie FileNotFoundError, "The filename '.../rows/*.yml' does not exist."
# Way out: two YAML documents. copie stops reading at the first one with `_subdirectory`.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet pytest==9.1.1 pytest-copie==0.3.1 copier==9.19.1
mkdir -p "$work/one/template" "$work/one/rows"
cd "$work/one"
printf 'name: a\n' > rows/a.yml
printf 'name: b\n' > rows/b.yml
printf '_subdirectory: template\n' > copier.yml
printf 'rows:\n  type: yaml\n  when: false\n  default: !include rows/*.yml\n' > questions
printf '{{ rows | length }} rows\n' > template/rows.txt.jinja
cp -r . ../two
cat questions >> copier.yml
{ echo ---; cat questions; } >> ../two/copier.yml
cat > ../test_copie.py <<'EOF'
from pathlib import Path

import copier


def test_copier_reads_a_pattern(tmp_path):
    copier.run_copy("one", tmp_path, defaults=True, quiet=True)
    assert (tmp_path / "rows.txt").read_text() == "2 rows\n"


def test_copie_reads_a_name(copie):
    result = copie.copy(template_dir=Path("one"))
    print("seen:", type(result.exception).__name__, result.exception)
    assert isinstance(result.exception, FileNotFoundError)


def test_copie_reads_the_first_document(copie):
    result = copie.copy(template_dir=Path("two"))
    assert result.exception is None
    assert (result.project_dir / "rows.txt").read_text() == "2 rows\n"
EOF
cd ..
"$work/venv/bin/python" -m pytest -q -s -p no:cacheprovider test_copie.py
