# Everything from a bare clone with Python 3.11 or later, git and make.
PYTHON ?= python3
PIP = -m pip install --quiet --disable-pip-version-check

.PHONY: demo test bench lint clean

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	.venv/bin/python $(PIP) --editable ".[dev]"
	touch $@

# The oldest versions that a rendered project may be installed with.
.venv-floor/installed: tests/floor.txt
	$(PYTHON) -m venv .venv-floor
	.venv-floor/bin/python $(PIP) --requirement tests/floor.txt
	touch $@

test: .venv/installed .venv-floor/installed
	OMP_NUM_THREADS=1 TORCH_TRICKS_FLOOR_PYTHON=.venv-floor/bin/python \
		.venv/bin/python -m pytest -n auto $(PYTEST_FLAGS)

clean:
	rm -rf .venv .venv-floor demo
