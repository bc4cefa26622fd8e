# Everything from a bare clone with Python 3.11 or later, git and make. For another Python than
# python3: make test PYTHON=python3.13, in a clone without environments, or after make clean.
PYTHON ?= python3
# Where tools/ find the helpers of the tests.
SUPPORT = PYTHONPATH=tests/support:tools
PIP = -m pip install --quiet --disable-pip-version-check

.PHONY: demo test proof try ledger lint docs page example chromium site site-serve bench gpu
.PHONY: gpu.tar.gz release-agrees release-check clean

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	.venv/bin/python $(PIP) --editable ".[dev]"
	touch $@

# The oldest versions that a rendered project may be installed with.
.venv-floor/installed: tests/floor.txt
	$(PYTHON) -m venv .venv-floor
	.venv-floor/bin/python $(PIP) --requirement tests/floor.txt
	touch $@

# Renders a project into ./demo and trains it, for about a minute.
demo: .venv/installed
	.venv/bin/copier copy --quiet --defaults --overwrite --vcs-ref HEAD \
		--data project_name=Demo "$(CURDIR)" demo
	cd demo && ../.venv/bin/python train.py

PYTEST = .venv/bin/python -m pytest -n auto --dist worksteal -rs $(PYTEST_FLAGS)

.PHONY: installed
installed:
	$(MAKE) --jobs=2 .venv/installed .venv-floor/installed

# One of each kind.
test: .venv/installed
	$(MAKE) lint
	$(PYTEST) -m "not proof"

# What takes longer, before a release and in CI: make proof SHARE=8 takes an eighth of the
# subsets, kills and updates, and another eighth with the next SEED. That is random by default.
proof: installed
	TORCH_TRICKS_SHARE=$(SHARE) TORCH_TRICKS_SEED=$(SEED) $(PYTEST) -m proof

# Tries a trick, and stops where it fails: make try TRICK=mixup. First come its own tests, then
# its row, its page, what it depends on and what a GPU would wait for, then projects that have it.
TRY = TORCH_TRICKS_TRICK=$(TRICK) .venv/bin/python -m pytest -n 2 -q
TRY_OUT = PYTHONPATH=tests $(TRY) -p conftest tools/trying.py
ROW = tests/template/test_rows.py tests/repo/test_contributing.py tests/repo/test_docs.py
try: .venv/installed
	$(MAKE) lint
	$(TRY_OUT) -k test_own_tests
	$(TRY) $(ROW) -k "$(TRICK) and not example"
	test $(TRICK) = sign_gradients || git apply --check docs/example.patch
	$(TRY) tests/repo/test_packaging.py tests/projects/test_floor.py tests/projects/test_fake_gpu.py \
		tests/projects/test_subsets.py \
		-k "no_package or depends_on or are_the_declared or nothing_waits and everything or every_trace"
	$(TRY_OUT) -k test_a_project

# What each trick costs in the template: lines, files and meetings with other tricks.
ledger: .venv/installed
	.venv/bin/python tools/ledger.py

# Tests what the documentation states about other libraries: make claims CLAIMS=h5py
.PHONY: claims
claims: .venv/installed
	.venv/bin/python tools/claims.py $(CLAIMS)

lint: .venv/installed
	.venv/bin/ruff check --quiet
	.venv/bin/ruff format --check --quiet

# Rewrites what README.md and docs/ show of rendered projects.
docs: .venv/installed
	$(SUPPORT) .venv/bin/python tools/write_docs.py

# The page on which tricks are picked, as one file: build/site/pick/index.html
page: .venv/installed
	.venv/bin/python tools/write_page.py

# The recommended project of each task, to read: build/example
example: .venv/installed
	.venv/bin/python tools/write_example.py

# The browser that tests/repo/test_page.py needs: without one it is skipped.
SUDO = $(if $(filter-out 0,$(shell id -u)),sudo)
chromium:
	command -v chromium google-chrome || \
		{ $(SUDO) apt-get update && $(SUDO) apt-get install --yes chromium; }

# The handbook, the README and the page to pick tricks in as one site, in build/site.
site: page
	.venv/bin/python tools/write_site.py
	.venv/bin/zensical build --strict --clean --config-file build/zensical.toml

# Shows it in a browser, until Ctrl-C. What is edited is there after the next make site.
site-serve: site
	.venv/bin/python -m http.server --bind 127.0.0.1 --directory build/site 8000

.venv/installed-bench: .venv/installed
	.venv/bin/python $(PIP) --editable ".[bench]"
	touch $@

bench: .venv/installed-bench
	OMP_NUM_THREADS=1 .venv/bin/python benchmarks/run.py

# Trains on a GPU, and measures some tricks there. What it needs, where there is no Copier and
# no network, is in gpu.tar.gz; there: make gpu PYTHON=python3, with what a project needs.
gpu:
	# In a clone, what was rendered before may be of another commit.
	[ ! -d template ] || rm -rf build/projects
	$(MAKE) build/projects
	TORCH_TRICKS_RENDERED=build/projects/rows \
		$(PYTHON) -m pytest -p no:cacheprovider -m gpu tests/projects/test_gpu.py
	$(PYTHON) benchmarks/run.py --only tricks
	[ ! -d template ] || .venv/bin/python benchmarks/effects.py gpu-steps gpu-compiled-steps loading

gpu.tar.gz:
	rm -rf build/projects
	$(MAKE) build/projects
	tar --create --gzip --file $@ Makefile pyproject.toml tests benchmarks build/projects

build/projects:
	$(MAKE) .venv/installed
	rm -rf $@.new
	$(SUPPORT) .venv/bin/python tests/support/rendering.py $@.new/rows
	.venv/bin/python benchmarks/tricks.py --render $@.new/benchmarks
	mv $@.new $@

# Whether the files, the tags and the address agree on a version, and earlier ones update to it.
release-agrees: .venv/installed
	$(SUPPORT) .venv/bin/python tools/release.py $(VERSION)

# Checks whether a version can be released: make release-check VERSION=0.2.0
# Its wheel is installed as anybody would, from the package index.
release-check: release-agrees
	rm -rf build/release
	.venv/bin/python -m hatchling build -t wheel -d build/release
	$(PYTHON) -m venv build/release/environment
	build/release/environment/bin/python $(PIP) build/release/*.whl
	build/release/environment/bin/torch-tricks new build/release/project \
		--template . --ref HEAD --preset everything --name "Release Check"
	$(MAKE) test
	$(MAKE) proof

clean:
	rm -rf .venv .venv-floor build demo gpu.tar.gz
