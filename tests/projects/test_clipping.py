"""Ranks clip by the norm of the whole gradient, as one process does."""

import pytest
import ranks
import training
from rendering import render_subset
from subsets import Subset


@pytest.mark.proof
@pytest.mark.parametrize("form", ["ddp", "fsdp"])
def test_two_ranks_clip_as_one_process_does(form, tmp_path, zygote, folder):
    tricks = ("seeding", "grad_clipping")
    flags = ["--data", "folder", "--data-dir", folder, "--device", "cpu"]
    flags += [*training.COMMON, "--clip-norm", 0.1]
    one, two = tmp_path / "one", tmp_path / "two"
    plain = render_subset(tmp_path / "none", Subset.of("folders", *tricks))
    project = render_subset(
        tmp_path / form, Subset.of("folders", *tricks, parallel=form)
    )
    alone, shared = (*flags, "--run-dir", one), (*flags, "--run-dir", two)
    results = [
        zygote.run(plain, ranks.SCRIPT, "comparable", *alone),
        training.run_ranks(zygote.run, project, *shared, events="comparable"),
    ]
    for result in results:
        assert (result.returncode, result.stderr) == (0, "")
    training.check_close_runs(one, two)
