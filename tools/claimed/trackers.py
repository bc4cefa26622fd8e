"""Statements about TensorBoard, MLflow, W&B and Optuna."""

import re

from claimed.claim import claim, folder, python


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
