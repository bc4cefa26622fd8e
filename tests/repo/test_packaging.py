"""Rendered projects, and the command line, install and declare what they import."""

import ast
import json
import re
import shutil
import sys
import tomllib
from importlib.metadata import Distribution, distribution, packages_distributions
from pathlib import Path
from zipfile import ZipFile

import pytest
from address import ADDRESS
from commands import commit
from inspection import MODULE_OF, module_of
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from processes import call
from rendering import PACKAGE, render, render_files
from subsets import ROOT, everything
from torch_tricks import template
from torch_tricks.catalogue import own_catalogue
from torch_tricks.preview import own_version
from torch_tricks.template import PUBLISHED
from updating import read_files, recorded_answers
from versions import git
from write_page import reserved_names

OF_MODULE = {module: name for name, module in MODULE_OF.items()}
"""Distributions that are not called as the module that they bring."""

IMPORTED_BY = {
    "torch.utils.tensorboard": "tensorboard",
    "onnx": "onnxscript",
    "mlflow": "alembic",
    "mlflow.store.db": "sqlalchemy",
}
"""Distributions that modules of another one import."""


@pytest.fixture(params=["minimal", "recommended", "everything"])
def project(request, tmp_path):
    return render(tmp_path / "project", {"preset": request.param})


def imported(files, project):
    """The third-party distributions that Python files of a project import."""
    names = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names.add(node.module)
    names |= {IMPORTED_BY[name] for name in names & IMPORTED_BY.keys()}
    modules = {name.partition(".")[0] for name in names}
    modules -= {*sys.stdlib_module_names, PACKAGE, *scripts(project)}
    return {OF_MODULE.get(module, module) for module in modules}


def scripts(project):
    return {path.stem for path in project.glob("*.py")}


@pytest.fixture(scope="module")
def everything_in_it(tmp_path_factory):
    return render(tmp_path_factory.mktemp("project"), {"preset": "everything"})


def check_reserved(names):
    missing = names - reserved_names(own_version())
    assert missing == set(), (
        "reserved_names of copier.yml, or `depends` of a row, lacks them"
    )


@pytest.mark.parametrize("parallel", ["dp", "ddp"])
def test_no_package_is_called_as_a_script_or_a_module_of_the_tests(parallel):
    files = render_files(everything(parallel=parallel).answers)
    code = [file for file in files if re.fullmatch(r"(tests/.*|[^/]*)\.py", file)]
    names = {Path(file).stem for file in code}
    check_reserved({name for name in names if not name.startswith("test_")})


def test_no_package_is_called_as_a_directory_that_git_ignores(everything_in_it):
    lines = (everything_in_it / ".gitignore").read_text(encoding="utf-8").split()
    names = {name for line in lines if (name := line.strip("/")).isidentifier()}
    check_reserved({name for name in names if not name.startswith("_")})


def test_no_package_is_called_as_what_a_project_imports(everything_in_it):
    used = imported(code_of(everything_in_it), everything_in_it)
    check_reserved({module_of(name).lower() for name in used})


def test_no_package_is_called_as_what_a_dependency_brings(everything_in_it):
    """By the name of its module or its own, which `pip install -e .` would replace."""
    text = (everything_in_it / "pyproject.toml").read_text(encoding="utf-8")
    metadata = tomllib.loads(text)["project"]
    lines = [*metadata["dependencies"], *metadata["optional-dependencies"]["dev"]]
    found = requirements(*lines).keys()
    names = {name.replace("-", "_") for name in found}
    for module, owners in packages_distributions().items():
        if found & {canonicalize_name(owner) for owner in owners}:
            names.add(module)
    # The others are refused for their letters.
    letters = "[a-z]([a-z0-9_]*[a-z0-9])?"
    check_reserved({name for name in names if re.fullmatch(letters, name)})


def code_of(project):
    """The scripts of a project, and the modules of its package."""
    return {*project.glob("*.py"), *project.glob(f"{PACKAGE}/**/*.py")}


def test_it_depends_on_what_it_imports(project):
    metadata = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    declared = {line.partition(">=")[0] for line in metadata["dependencies"]}
    used = imported(code_of(project), project)
    assert used == declared, (
        f"imported, but not in template/pyproject.toml.jinja: {used - declared or 'none'}; "
        f"there, but not imported: {declared - used or 'none'}"
    )
    files = [*project.glob("tests/**/*.py")]
    tests = imported(files, project) - declared - {file.stem for file in files}
    dev = {line.partition(">=")[0] for line in metadata["optional-dependencies"]["dev"]}
    assert tests <= dev


def test_git_ignores_no_code(project):
    git(project, "init", "--quiet")
    # It names none, and says so by its code.
    call("git", "check-ignore", *project.rglob("*.py"), cwd=project, code=1)


@pytest.mark.parametrize(
    ("installer", "preset"), [("pip", "minimal"), ("uv", "everything")]
)
def test_it_installs(tmp_path, installer, preset):
    project = render(tmp_path / "project", {"preset": preset})
    target = tmp_path / "installed"
    command = [
        *([sys.executable, "-m", "pip"] if installer == "pip" else [find_uv(), "pip"]),
        *("install", "--no-deps", "--no-build-isolation", "--target", str(target)),
        *(["--python", sys.executable, "--offline"] if installer == "uv" else []),
        f"{project}[dev]",
    ]
    call(*command)
    assert (target / PACKAGE / "settings.py").exists()
    # Its commands stay in the project's folder, where people edit them.
    assert not (target / "train.py").exists()


def find_uv():
    return shutil.which("uv", path=Path(sys.executable).parent)


def requirements(*lines):
    """Returns distributions of this environment and all that they require, by name."""
    found: dict[str, Distribution] = {}
    waiting = list(lines)
    while waiting:
        requirement = Requirement(waiting.pop())
        name, marker = canonicalize_name(requirement.name), requirement.marker
        if name not in found and (not marker or marker.evaluate({"extra": ""})):
            found[name] = distribution(name)
            waiting += found[name].requires or []
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of `torch-tricks`."""
    directory = tmp_path_factory.mktemp("wheel")
    build = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", directory)
    run(*build, cwd=ROOT)
    [wheel] = directory.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def empty_environment(wheel):
    """A virtual environment with the wheel and what it requires."""
    environment = wheel.with_name("environment")
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    options = ("--offline", "--no-deps", "--python", python)
    run(find_uv(), "pip", "install", *options, wheel)
    [site] = environment.glob("lib/python*/site-packages")
    others = requirements("torch-tricks")
    del others["torch-tricks"]
    # Linked from where the tests run, as there may be no network to install them from.
    for other in others.values():
        for name in {file.parts[0] for file in other.files} - {"..", "__pycache__"}:
            if not (site / name).exists():
                (site / name).symlink_to(other.locate_file(name))
    return environment


def run(*command, cwd=None, code=0, **variables):
    # With PYTHONPATH the tool would be that of this clone.
    return call(*command, cwd=cwd, code=code, PYTHONPATH="", **variables)


def test_the_wheel_has_the_licence(wheel):
    with ZipFile(wheel) as archive:
        [name] = (name for name in archive.namelist() if name.endswith("/LICENSE"))
        assert archive.read(name) == (ROOT / "LICENSE").read_bytes()
        [name] = (name for name in archive.namelist() if name.endswith("/METADATA"))
        metadata = archive.read(name).decode()
    assert "\nLicense-Expression: MIT\n" in metadata


def test_a_project_has_no_licence_of_ours(project):
    """A project belongs to its owner, who chooses a license."""
    assert not [path for path in project.rglob("*") if "licen" in path.name.lower()]
    assert "license" not in (project / "pyproject.toml").read_text(encoding="utf-8")


def test_the_wheel_lists_its_tricks_without_network(empty_environment, tmp_path):
    nowhere = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{tmp_path}/nowhere/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/",
    }
    torch_tricks = empty_environment / "bin" / "torch-tricks"
    listed = run(torch_tricks, "list", cwd=tmp_path, **nowhere)
    names = [line.split()[0] for line in listed.splitlines() if line[0] == " "]
    assert [name for name in names if name in own_catalogue()] == [*own_catalogue()]
    [copy] = empty_environment.glob("lib/python*/site-packages/torch_tricks/copier.yml")
    assert copy.read_bytes() == (ROOT / "copier.yml").read_bytes()


def test_the_wheel_makes_projects_without_network_and_git(
    empty_environment, workshop, tmp_path
):
    """The same as Copier makes of the release, which later updates begin with."""
    command = (empty_environment / "bin" / "torch-tricks", "new", "project")
    wishes = ("--name", "Leaf Diseases", "--preset", "everything", "--without", "swa")
    run(*command, *wishes, cwd=tmp_path, PATH="/nowhere")
    made = read_files(tmp_path / "project")
    version = f"v{distribution('torch-tricks').version}"
    # Its answers file has the published address and the version, too.
    assert made == workshop.fresh(version, recorded_answers(made))


COMMIT, FORK = "a" * 40, "ssh://git@host/fork"
TAG = {"commit_id": COMMIT, "requested_revision": "v1.2.3"}
ORIGINS = {
    "index": (None, PUBLISHED, "v1.2.3"),
    "wheel": ({"url": "file:///a.whl", "archive_info": {}}, PUBLISHED, "v1.2.3"),
    "git": (
        {"url": ADDRESS, "vcs_info": {"commit_id": COMMIT}},
        *(PUBLISHED, f"v1.2.3-0-g{COMMIT}"),
    ),
    "tag": ({"url": f"{ADDRESS}.git", "vcs_info": TAG}, PUBLISHED, "v1.2.3"),
    "fork": (
        {"url": FORK, "vcs_info": {"commit_id": COMMIT}},
        *(f"git+{FORK}", f"v1.2.3-0-g{COMMIT}"),
    ),
    "clone": ({"url": ROOT.as_uri(), "dir_info": {}}, str(ROOT), "HEAD"),
    "folder": ({"url": "file:///nowhere", "dir_info": {}}, PUBLISHED, "v1.2.3"),
}


@pytest.mark.parametrize(
    ("origin", "source", "version"), ORIGINS.values(), ids=ORIGINS.keys()
)
def test_the_tool_knows_what_it_was_installed_from(
    origin, source, version, tmp_path, monkeypatch
):
    """By what pip and uv record (PEP 610), it names the template of new projects."""
    about = tmp_path / "torch_tricks-1.2.3.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: torch-tricks\nVersion: 1.2.3\n")
    if origin is not None:
        (about / "direct_url.json").write_text(json.dumps(origin))
    monkeypatch.setattr(template, "distribution", lambda name: Distribution.at(about))
    monkeypatch.setattr(template, "__file__", str(tmp_path / "a" / "b" / "template.py"))
    assert template.default_source.__wrapped__() == (source, version)


@pytest.mark.proof
def test_the_newest_copier_will_do(wheel, workshop, tmp_path):
    """Installs the newest dependencies from the package index."""
    run(sys.executable, "-m", "venv", tmp_path / "environment")
    pip = (tmp_path / "environment" / "bin" / "python", "-m", "pip", "install")
    run(*pip, "--quiet", "--no-deps", wheel)
    others = distribution("torch-tricks").requires
    names = [Requirement(line).name for line in others if "extra ==" not in line]
    run(*pip, "--quiet", "--upgrade", *names)

    def torch_tricks(*arguments, code=0):
        command = tmp_path / "environment" / "bin" / "torch-tricks"
        hub = workshop.hub.environment
        return run(command, *arguments, cwd=tmp_path, code=code, **hub)

    wishes = ("--name=Leaf Diseases", "--preset=minimal", "--ref=v0.1.0")
    project = tmp_path / "project"
    for wrong, sentence in (
        (
            "--data=package_name=class",
            "error: 'package_name': class is taken by Python",
        ),
        (
            "--ref=nowhere",
            "error: the template, or this version of it, cannot be had (",
        ),
    ):
        assert torch_tricks("new", project, *wishes, wrong, code=2).startswith(sentence)
        assert not project.exists()
    torch_tricks("new", project, *wishes)
    assert read_files(project) == workshop.fresh("v0.1.0", {"preset": "minimal"})
    git(project, "init", "--quiet")

    commit(project)
    added = torch_tricks("add", "swa", "--project", project)
    assert f"added {PACKAGE}/optim/swa.py" in added
    commit(project)
    torch_tricks("update", "--to", "v0.2.0", "--project", project)
    after = read_files(project)
    assert after == workshop.fresh("v0.2.0", recorded_answers(after))
    commit(project)
    assert "edited          none\n" in torch_tricks("status", "--project", project)
    assert "swa" in torch_tricks("show", "swa", "--project", project)


def test_the_command_line_needs_no_torch():
    assert not {"torch", "numpy"} & requirements("torch-tricks").keys()
