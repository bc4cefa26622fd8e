"""Statements about TensorBoard, MLflow, W&B and Optuna."""

import io
import logging
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path

from claimed.claim import claim, folder, printed, python, raised


@claim(
    "optuna",
    "docs/tricks/sweep.md",
    "The sampler of Optuna 5 avoids values near running trials.",
)
def _() -> object:
    import inspect

    import optuna

    sampler = inspect.signature(optuna.samplers.TPESampler).parameters
    assert sampler["constant_liar"].default is True
    return "constant_liar=True"


@claim(
    "optuna",
    "docs/tricks/sweep.md",
    "Optuna samples the next settings near good ones (TPE).",
)
def _() -> object:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.create_study().sampler
    assert type(sampler).__name__ == "TPESampler"
    return type(sampler).__name__


@claim(
    "tensorboard torch",
    "docs/tricks/tensorboard.md",
    "TensorBoard smooths curves, and keeps 10 images and 500 histograms of a tag.",
)
def _() -> object:
    from tensorboard.plugins.histogram import histograms_plugin
    from tensorboard.plugins.image import images_plugin

    plugins = images_plugin, histograms_plugin
    found = [plugin._DEFAULT_DOWNSAMPLING for plugin in plugins]
    assert found == [10, 500], found
    return found


@claim(
    "mlflow-skinny",
    "docs/tricks/mlflow.md",
    "MLflow refuses to change a parameter.",
)
def _() -> object:
    with folder() as place:
        seen = python(f"""
            import mlflow
            mlflow.set_tracking_uri("sqlite:///{place}/a.db")
            with mlflow.start_run():
                mlflow.log_param("lr", 1)
                mlflow.log_param("lr", 2)
        """)
    assert (
        seen.returncode
        and "changing" in seen.stderr.lower()
        or "Changing" in seen.stderr
    )
    return [line for line in seen.stderr.splitlines() if "hanging" in line][-1][:90]


@claim(
    "wandb",
    "docs/tricks/wandb.md",
    "W&B drops a step below the last one",
)
def _() -> object:
    with folder() as place:
        seen = python(
            f"""
            import wandb
            run = wandb.init(mode="offline", dir={str(place)!r})
            run.log({{"a": 1}}, step=5)
            run.log({{"a": 2}}, step=4)
            run.log({{"a": 3}}, step=6)
            run.finish()
            """,
            WANDB_SILENT="false",
        )
    # A bar for each point of the curve.
    points = re.findall(r"wandb: a (\S+)\n", seen.stderr)[0]
    assert len(points) == 2, seen.stderr
    return "two of the steps 5, 4 and 6 are kept"


@claim(
    "mlflow-skinny",
    "docs/tricks/mlflow.md",
    "Without either, MLflow writes `mlflow.db` in the working directory.",
)
@claim(
    "mlflow-skinny",
    "docs/tricks/mlflow.md",
    "After `kill -9` the status stays *running* until the run is resumed.",
)
@claim(
    "mlflow-skinny",
    "template/**/mlflow_run.py.jinja",
    "MLflow would keep the records of a resumed run twice.",
)
def _() -> object:
    with folder() as place:
        seen = printed(
            f"""
            import os
            os.chdir({str(place)!r})
            import mlflow
            if os.fork() == 0:
                mlflow.start_run()
                mlflow.log_metric("a", 1, step=3)
                mlflow.log_metric("a", 2, step=3)
                os.kill(os.getpid(), 9)
            os.wait()
            client = mlflow.MlflowClient()
            [run] = client.search_runs(["0"])
            points = client.get_metric_history(run.info.run_id, "a")
            print(os.listdir(), run.info.status, [point.step for point in points])
            """,
            MLFLOW_DISABLE_TELEMETRY="true",
        )
    assert seen == "['mlflow.db'] RUNNING [3, 3]", seen
    return seen


@claim(
    "mlflow-skinny",
    "docs/tricks/mlflow.md",
    "MLflow sends usage data to its developers. The project sets `MLFLOW_DISABLE_TELEMETRY` unless "
    "you set it.",
)
def _() -> object:
    from mlflow.environment_variables import MLFLOW_DISABLE_TELEMETRY as variable

    assert variable.default is False
    return str(variable)


@claim(
    "mlflow-skinny",
    "docs/tricks/mlflow.md",
    "`mlflow ui` needs `mlflow`.",
)
def _() -> object:
    done = subprocess.run(
        [Path(sys.executable).parent / "mlflow", "ui"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode
    return done.stderr.strip().splitlines()[-1]


@claim(
    "tensorboard torch",
    "docs/tricks/tensorboard.md",
    "`purge_step` hides those steps in TensorBoard's Python reader (`--load_fast=false`).",
)
@claim(
    "tensorboard torch",
    "docs/tricks/tensorboard.md",
    "`SummaryWriter.add_hparams` creates a second run.",
)
def _() -> object:
    from tensorboard.backend.event_processing import event_accumulator
    from torch.utils.tensorboard import SummaryWriter

    with folder() as place:
        for purge, steps in ((None, range(6)), (3, [3])):
            writer = SummaryWriter(place, purge_step=purge)
            for step in steps:
                writer.add_scalar("a", step, step)
            writer.close()
        events = event_accumulator.EventAccumulator(str(place))
        logging.disable()
        events.Reload()
        logging.disable(logging.NOTSET)
        seen = [scalar.step for scalar in events.Scalars("a")]
        writer.add_hparams({"lr": 0.1}, {"accuracy": 1.0})
        writer.close()
        runs = [path for path in place.iterdir() if path.is_dir()]
    assert seen == [0, 1, 2, 3] and len(runs) == 1
    return f"steps {seen} of 0 to 5 and 3, and a folder of a second run"


@claim(
    "optuna",
    "docs/tricks/sweep.md",
    "If Optuna refuses the edit, such as other choices of a setting",
)
@claim(
    "optuna",
    "docs/tricks/sweep.md",
    "A choice is a number, a text, `True`, `False` or `None`, but no list.",
)
def _() -> object:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    study = optuna.create_study()
    for high in (1.0, 2.0):
        study.optimize(lambda trial, h=high: trial.suggest_float("a", 0, h), 1)
    study.optimize(lambda trial: bool(trial.suggest_categorical("b", [1, None])), 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        study.optimize(lambda trial: len(trial.suggest_categorical("c", [[1]])), 1)
    assert "should be a tuple of None, bool, int, float and str" in str(
        caught[0].message
    )
    other = [1, 2]
    return raised(
        lambda: study.optimize(
            lambda trial: bool(trial.suggest_categorical("b", other)), 1
        ),
        ValueError,
    )


@claim(
    "optuna",
    "docs/tricks/sweep.md",
    "Newer versions remove it after 30 seconds.",
)
@claim(
    "optuna",
    "docs/tricks/sweep.md",
    "The `MedianPruner` ends a trial whose best metric so far is worse than the median of the "
    "finished trials at the same epoch.",
)
@claim(
    "optuna",
    "template/**/readme_section.md.jinja",
    "Later ones end early if their best metric so far is worse than the median of the finished "
    "trials at the same epoch.",
)
def _() -> object:
    import inspect

    import optuna

    lock = optuna.storages.journal.JournalFileSymlinkLock
    grace = inspect.signature(lock).parameters["grace_period"].default
    assert grace == 30
    study = optuna.create_study(
        direction="maximize", pruner=optuna.pruners.MedianPruner(n_startup_trials=2)
    )

    def pruned(*values: float, finish: bool = True) -> bool:
        trial = study.ask()
        for epoch, value in enumerate(values):
            trial.report(value, epoch)
        prune = trial.should_prune()
        if finish:
            study.tell(trial, values[-1])
        return prune

    seen = [pruned(0.2, 0.2), pruned(0.6, 0.6), pruned(0.9, 0.9, finish=False)]
    seen += [pruned(0.3, 0.3, finish=False), pruned(0.5, 0.1, finish=False)]
    assert seen == [False, False, False, True, False], seen
    return f"{grace} s; after 0.2 and 0.6: 0.3 is pruned, and 0.1 after 0.5 is not"


@claim(
    "wandb",
    "docs/tricks/wandb.md",
    "The default is `online` after `wandb login`, else `offline`.",
)
def _() -> object:
    with folder() as place:
        done = python(
            f"""
            import os
            os.chdir({str(place)!r})
            import wandb
            wandb.init()
            """,
            WANDB_API_KEY="",
            HOME=str(place),
            WANDB_BASE_URL="http://127.0.0.1:9",
        )
    assert done.returncode
    return (
        "without a key and a mode, W&B itself ends: "
        + done.stderr.splitlines()[-1][:70]
    )


@claim(
    "matplotlib",
    "docs/tricks/plots.md",
    "The figures do not use pyplot, which would keep all figures in memory and might need a screen.",
)
def _() -> object:
    seen = printed("""
        import gc, sys, weakref
        from matplotlib.figure import Figure
        plain = weakref.ref(Figure())
        gc.collect()
        assert "matplotlib.pyplot" not in sys.modules
        import matplotlib
        matplotlib.use("agg")
        from matplotlib import pyplot
        kept = weakref.ref(pyplot.figure())
        gc.collect()
        print(plain() is None, kept() is None)
    """)
    assert seen == "True False"
    return "a figure of pyplot is still alive"


@claim(
    "matplotlib",
    "docs/tricks/metrics.md",
    "Letters that the font lacks, such as Chinese ones, are boxes.",
)
def _() -> object:
    from matplotlib.figure import Figure

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure = Figure()
        figure.text(0, 0, "\N{CJK UNIFIED IDEOGRAPH-53F6}")
        figure.savefig(io.BytesIO())
    assert caught
    return str(caught[0].message)[:80]


@claim(
    "wandb",
    "docs/tricks/wandb.md",
    "The client also sends the command, the printed lines, the state of the Git repository and the "
    "load of the machine. `WANDB_CONSOLE=off` removes the printed lines, and "
    "`WANDB_DISABLE_GIT=true` the repository.",
)
def _() -> object:
    code = """
        import os, sys, wandb
        os.chdir(sys.argv[1])
        run = wandb.init(mode="offline")
        print("a printed line")
        run.finish()
    """
    seen = []
    for options in ({}, {"WANDB_CONSOLE": "off", "WANDB_DISABLE_GIT": "true"}):
        with folder() as place:
            git = [
                "git",
                "-C",
                place,
                "-c",
                "user.name=me",
                "-c",
                "user.email=me@localhost",
            ]
            commit = "commit --quiet --allow-empty -m a"
            for command in (
                "init --quiet",
                "remote add origin git@example.org:a/b",
                commit,
            ):
                subprocess.run([*git, *command.split()], check=True)
            python(code.replace("sys.argv[1]", repr(str(place))), **options)
            time.sleep(5)  # The service writes the last block when it ends.
            [file] = (place / "wandb").glob("offline-run-*/*.wandb")
            data = file.read_bytes()
        seen.append((b"a printed line" in data, b"git@example.org" in data))
    assert seen == [(True, True), (False, False)], seen
    return "the line and the remote are in the file, and are not with both variables"


@claim(
    "wandb",
    "docs/tricks/wandb.md",
    "`kill -9` loses the last rows of an offline file, which W&B writes in blocks of 32 KiB: a short "
    "run loses all.",
)
def _() -> object:
    sizes = []
    for rows in (3, 400):
        with folder() as place:
            python(f"""
                import os, time, wandb
                os.chdir({str(place)!r})
                run = wandb.init(mode="offline")
                for step in range({rows}):
                    run.log({{"score": step}})
                time.sleep(5)
                os.kill(os.getpid(), 9)
            """)
            time.sleep(3)
            [file] = (place / "wandb").glob("offline-run-*/*.wandb")
            sizes.append(file.stat().st_size)
    assert sizes[0] < 100 and sizes[1] and sizes[1] % 2**15 == 0, sizes
    return f"after 3 and 400 rows, the files have {sizes} bytes"
