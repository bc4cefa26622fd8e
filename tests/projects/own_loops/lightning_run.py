"""A Lightning module with tricks of a project.

python lightning_run.py RUN EPOCHS [CHECKPOINT]
"""

import sys
from typing import Any

import lightning
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from tricks.class_metrics import count_confusion, mean_scores
from tricks.models.freezing import freeze, train_unfrozen
from tricks.optim.ema import ExponentialMovingAverage
from tricks.optim.grad_clipping import GradientClipping
from tricks.optim.l1 import add_penalty_gradient
from tricks.optim.layerwise import layerwise_groups

CPU = torch.device("cpu")


class Classifier(lightning.LightningModule):
    """Tells images whose left half is brighter from the others."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(8 * 8 * 8, 2),
        )
        freeze(self.model, ["1.*"])
        self.clipping = GradientClipping(1.0, CPU)
        self.average = ExponentialMovingAverage(self.model, 0.99, CPU)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(layerwise_groups(self.model, lr=1e-2, decay=0.5))

    def on_train_epoch_start(self) -> None:
        train_unfrozen(self.model)
        self.clipping.reset()

    def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        images, targets = batch
        return F.cross_entropy(self.model(images), targets)

    def on_before_optimizer_step(self, _: torch.optim.Optimizer) -> None:
        add_penalty_gradient(self.model, 1e-5)
        self.clipping.clip(self.model)

    def on_train_batch_end(self, *_: Any) -> None:
        self.average.update()

    def on_train_epoch_end(self) -> None:
        self.log_dict(self.clipping.compute())

    def on_validation_epoch_start(self) -> None:
        # In a list, or it would become a part of this module.
        self.averaged = [self.average.averaged_model().eval()]
        self.confusion = torch.zeros(2, 2)

    def validation_step(self, batch: tuple[Tensor, Tensor]) -> None:
        images, targets = batch
        self.confusion += count_confusion(self.averaged[0](images), targets)

    def on_validation_epoch_end(self) -> None:
        self.log_dict(mean_scores(self.confusion))

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["average"] = self.average.state_dict()
        checkpoint["clipping"] = self.clipping.state_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.average.load_state_dict(checkpoint["average"])
        self.clipping.load_state_dict(checkpoint["clipping"])


def loader(seed: int) -> DataLoader[Any]:
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(256, 1, 8, 8, generator=generator)
    left, right = (half.mean(dim=(1, 2, 3)) for half in images.split(4, dim=3))
    data = TensorDataset(images, (left > right).long())
    return DataLoader(data, batch_size=32)


def main(directory: str, epochs: int, checkpoint: str | None) -> None:
    lightning.seed_everything(1, verbose=False)
    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        default_root_dir=directory,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Classifier(), loader(2), loader(3), ckpt_path=checkpoint)
    print({name: float(value) for name, value in trainer.callback_metrics.items()})
    trainer.save_checkpoint(f"{directory}/last.ckpt")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *[*sys.argv[3:], None][:1])
