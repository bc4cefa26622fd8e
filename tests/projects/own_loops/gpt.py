"""A small GPT over characters, with a loop of its own and tricks of a project beside it.

python gpt.py TEXT RUN STEPS
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tricks.optim.accumulation import windows
from tricks.optim.amp import autocast, choose_amp_dtype, make_scaler, scaled_step
from tricks.optim.decay_groups import split_decay
from tricks.optim.ema import ExponentialMovingAverage
from tricks.optim.grad_clipping import GradientClipping
from tricks.processes.signals import StopSignal
from tricks.seeding import seed_everything
from tricks.storage import checkpoint_path, read_state, save_state, saved_checkpoints

LENGTH, BATCH_SIZE, MICRO_BATCHES = 64, 8, 2


class GPT(nn.Module):
    """Maps characters (N, T) to logits of the next ones (N, T, vocabulary)."""

    def __init__(self, vocabulary: int, width: int = 64) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.pos_embed = nn.Parameter(torch.randn(LENGTH, width) * 0.02)
        block = nn.TransformerEncoderLayer(
            width, 4, 4 * width, 0.1, "gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, characters: Tensor) -> Tensor:
        length = characters.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        embedded = self.tokens(characters) + self.pos_embed[:length]
        return self.head(self.blocks(embedded, mask, is_causal=True))


def draw_batches(data: Tensor, first_step: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields micro-batches, which depend on their number alone."""
    number = first_step * MICRO_BATCHES
    while True:
        generator = torch.Generator().manual_seed(number)
        size = (BATCH_SIZE,)
        starts = torch.randint(len(data) - LENGTH - 1, size, generator=generator)
        lines = torch.stack([data[start : start + LENGTH + 1] for start in starts])
        yield lines[:, :-1], lines[:, 1:]
        number += 1


def main(text: str, directory: Path, steps: int) -> None:
    seed_everything(1)
    device = torch.device("cpu")
    characters = sorted({*text})
    data = torch.tensor([characters.index(character) for character in text])
    model = GPT(len(characters))
    groups = [{"params": list(model.parameters()), "weight_decay": 0.1}]
    optimizer = torch.optim.AdamW(split_decay(model, groups), lr=3e-3)
    dtype = choose_amp_dtype("auto", device)
    scaler = make_scaler(dtype, device)
    clipping = GradientClipping(1.0, device)
    average = ExponentialMovingAverage(model, 0.99, device)
    stop, step = StopSignal(), 0
    parts = {"model": model, "optimizer": optimizer, "scaler": scaler}
    parts |= {"clipping": clipping, "average": average}
    directory.mkdir(parents=True, exist_ok=True)
    if saved := saved_checkpoints(directory):
        state = read_state(saved[0])
        step = state["step"]
        torch.set_rng_state(state["random"])
        for name, part in parts.items():
            part.load_state_dict(state[name])
    batches = draw_batches(data, step)
    with stop:
        for window in windows(batches, (steps - step) * MICRO_BATCHES, MICRO_BATCHES):
            for inputs, targets in window:
                with autocast(device, dtype):
                    logits = model(inputs)
                    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
                scaler.scale(loss / len(window)).backward()
            scaler.unscale_(optimizer)
            clipping.clip(model)
            if scaled_step(scaler, optimizer):
                average.update()
            optimizer.zero_grad()
            step += 1
            if step % 20 == 0 or step == steps or stop.requested():
                print(step, loss.item(), clipping.compute()["gradient_norm"])
                state = {name: part.state_dict() for name, part in parts.items()}
                state |= {"step": step, "random": torch.get_rng_state()}
                save_state(checkpoint_path(directory, step), state, keep=3)
            if stop.requested():
                return
    torch.save(average.averaged_model().state_dict(), directory / "model.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]).read_text("utf-8"), Path(sys.argv[2]), int(sys.argv[3]))
