"""Models that owners write: their errors are theirs, and nothing is asked of them before."""

import pytest
from inspection import PACKAGE
from rendering import render

FLAGS = (
    *("--model", "own", "--data", "folder", "--image-size", 8, "--epochs", 1),
    *("--batch-size", 4, "--num-workers", 0, "--device", "cpu"),
)

OWN_MODEL = '''
class Own(nn.Module):
    """Raises what the environment says, where it says."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.raise_in("init")
        self.linear = nn.Linear(3, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        self.raise_in("forward")
        weights = torch.tensor([0.2, 0.3, 0.5])  # As many write it: on the CPU.
        return self.linear(images.mean(dim=(2, 3)) * weights)

    def raise_in(self, place: str) -> None:
        if place == os.environ.get("PLACE"):
            raise getattr(builtins, os.environ["ERROR"])("a bug of my own")


def make_model('''


@pytest.fixture(scope="module", params=["custom", "recommended", "everything"])
def project(request, tmp_path_factory):
    """A project whose owner has added a model as its README says."""
    directory = tmp_path_factory.mktemp("own") / request.param
    answers = {"preset": request.param}
    if request.param == "custom":
        answers |= {"parallel": "none", "tricks": ["folders"]}
    project = render(directory, answers)
    path = project / PACKAGE / "models" / "networks.py"
    text = path.read_text(encoding="utf-8")
    branch = '    elif name == "own":\n        model = Own(outputs)\n    else:\n'
    for old, new in (
        ("import difflib\n", "import builtins\nimport difflib\nimport os\n"),
        ("import torchvision\n", "import torch\nimport torchvision\n"),
        ("def make_model(", OWN_MODEL.lstrip()),
        ("    else:\n", branch),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    return project


@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("init", "ValueError"),
        ("init", "RuntimeError"),
        ("forward", "ValueError"),
        ("forward", "RuntimeError"),
        ("forward", "AssertionError"),
        ("forward", "ZeroDivisionError"),
    ],
)
def test_errors_of_an_own_model_are_its_own(project, folder, place, error, zygote):
    result = zygote.run(
        project,
        *("train.py", *FLAGS, "--data-dir", folder),
        environment={"PLACE": place, "ERROR": error},
    )
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    assert lines[-1] == f"{error}: a bug of my own"
    assert lines.count("Traceback (most recent call last):") == 1
    assert not any(line.startswith("error:") for line in lines)


def test_single_images_are_no_matter_without_batch_norm(project, folder, zygote):
    flags = ("--data-dir", folder, "--batch-size", 1, "--max-steps", 2)
    result = zygote.run(project, "train.py", *FLAGS, *flags)
    assert result.returncode == 0, result.stderr
