"""A project with `amp` can do without: `--amp-dtype none` leaves nothing of it."""

import pytest
import training
from covering import FORMS
from rendering import render_subset
from subsets import everything, questions


@pytest.mark.proof
@pytest.mark.share
@pytest.mark.parametrize("form", questions()[FORMS])
def test_none_is_a_run_without_amp_to_the_last_bit(
    form, tmp_path, zygote, folder, hdf5
):
    runs = []
    for amp in (False, True):
        subset = everything(parallel=form, amp=amp)
        project = render_subset(tmp_path / f"project-{amp}", subset)
        runs.append(tmp_path / f"run-{amp}")
        flags = [*training.flags(subset, folder, hdf5), "--run-dir", runs[-1]]
        off = ("--amp-dtype", "none") if amp else ()
        training.train(zygote.run, project, *flags, *off)
    training.check_same_files(*runs)
    without, turned_off = map(training.reproducible, runs)
    assert [line | {"skipped_steps": 0} for line in without] == turned_off
