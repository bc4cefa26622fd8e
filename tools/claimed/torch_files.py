"""Statements about torch: saving and loading."""

import io
import logging
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from claimed.claim import claim, folder, printed, python, raised


@claim(
    "torch",
    "docs/tricks/resume.md",
    "`weights_only=True` refuses NumPy arrays, `Path` and dataclasses.",
)
def _() -> object:
    @dataclass
    class Settings:
        lr: float = 0.1

    globals()["Settings"] = Settings
    Settings.__qualname__ = "Settings"
    for value in (np.zeros(2), Path("a"), Settings()):
        file = io.BytesIO()
        torch.save(value, file)
        file.seek(0)
        seen = raised(lambda f=file: torch.load(f, weights_only=True))
    return seen


@claim(
    "torch",
    "docs/recipes/saving.md",
    "It refuses other types, such as NumPy numbers: save `float(score)`.",
)
def _() -> object:
    file = io.BytesIO()
    torch.save({"score": np.float32(1)}, file)
    file.seek(0)
    return raised(lambda: torch.load(file))


@claim("torch", "docs/tricks/resume.md", "`torch.load` verifies no checksums.")
def _() -> object:
    file = io.BytesIO()
    torch.save(torch.zeros(1000), file)
    data = bytearray(file.getvalue())
    place = data.find(bytes(400)) + 200
    data[place] ^= 1
    loaded = torch.load(io.BytesIO(bytes(data)), weights_only=True)
    assert loaded.count_nonzero() == 1
    return "a flipped bit became a number"


@claim(
    "torch",
    "template/**/checkpoint*.py.jinja",
    "torch.load(weights_only=True) refuses arrays.",
)
def _() -> object:
    file = io.BytesIO()
    torch.save(np.random.get_state(legacy=False), file)
    file.seek(0)
    return raised(lambda: torch.load(file, weights_only=True))


@claim(
    "torch",
    "template/**/files.py.jinja",
    "torch.save() raises a RuntimeError from the OSError of the file.",
)
def _() -> object:
    seen = python("""
        import resource, signal, tempfile, torch
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        with tempfile.TemporaryFile() as file:
            try:
                torch.save(torch.zeros(100_000), file)
            except RuntimeError as error:
                print(type(error.__context__).__name__, error.__context__)
    """)
    assert seen.stdout.startswith("OSError"), seen
    return seen.stdout.strip()


class Code:
    """An object that runs code when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


@claim(
    "torch",
    "docs/tricks/resume.md",
    "`torch.load(weights_only=False)`, the default before torch 2.6, runs code from the file.",
)
@claim(
    "torch",
    "docs/recipes/saving.md",
    "Since torch 2.6, `weights_only=True` is the default: it loads tensors and plain types, and runs "
    "no code from the file.",
)
def _() -> object:
    with folder() as place:
        torch.save(Code(place / "ran"), place / "a.pt")
        seen = raised(lambda: torch.load(place / "a.pt"))
        assert not (place / "ran").exists()
        torch.load(place / "a.pt", weights_only=False)
        assert (place / "ran").exists()
    return seen


@claim(
    "torch torchvision",
    "docs/tricks/pretrained.md",
    "`get_model(name, weights=...)` let a file run code.",
)
@claim(
    "torch torchvision",
    "template/**/pretrained.py.jinja",
    "The file is checked above, as torchvision would let it run code.",
)
def _() -> object:
    with folder() as place:
        done = python(
            f"""
            import pathlib, torch, torchvision
            class Code:
                def __reduce__(self):
                    return pathlib.Path.touch, (pathlib.Path({str(place / "ran")!r}),)
            weights = torchvision.models.get_model_weights("resnet18").DEFAULT
            folder = pathlib.Path(torch.hub.get_dir(), "checkpoints")
            folder.mkdir(parents=True)
            torch.save(Code(), folder / weights.url.rpartition("/")[2])
            torchvision.models.get_model("resnet18", weights=weights)
            """,
            TORCH_HOME=str(place),
        )
        assert (place / "ran").exists(), done.stderr
    return "a file in the cache is not compared with the hash of its name"


@claim(
    "torch",
    "docs/tricks/export.md",
    "A `.pt2` is read by pickle in part: load only files that you trust.",
)
def _() -> object:
    with folder() as place:
        model = torch.nn.Linear(3, 2).eval()
        program = torch.export.export(model, (torch.zeros(2, 3),))
        torch.export.save(program, place / "a.pt2")
        torch.save(Code(place / "ran"), place / "code.pt")
        with (
            zipfile.ZipFile(place / "a.pt2") as old,
            zipfile.ZipFile(place / "b.pt2", "w") as new,
        ):
            for name in old.namelist():
                code = place / "code.pt"
                changed = name.endswith("sample_inputs/model.pt")
                new.writestr(name, code.read_bytes() if changed else old.read(name))
        logging.disable()
        seen = raised(lambda: torch.export.load(place / "b.pt2"))
        logging.disable(logging.NOTSET)
        assert (place / "ran").exists()
    return f"an example input ran code, then {seen}"


@claim(
    "torch",
    "docs/tricks/export.md",
    "Call `eval()` first. Otherwise dropout and batch statistics are exported without an error.",
)
def _() -> object:
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.5))
    x = torch.randn(8, 3)
    exported = torch.export.export(model, (x,)).module()
    out = exported(x)
    assert (out == 0).any() and not torch.equal(exported(x), out)
    return "the exported model draws random numbers"


@claim(
    "torch",
    "template/**/export.py.jinja",
    "torch.export.save warns of weights in the other layout.",
)
def _() -> object:
    model = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last).eval()
    program = torch.export.export(model, (torch.zeros(2, 3, 8, 8),))
    with folder() as place, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.export.save(program, place / "a.pt2")
    assert caught
    return str(caught[0].message)[:80]


@claim(
    "torch",
    "docs/tricks/export.md",
    "unless `torch.export.passes.move_to_device_pass` moves it to a GPU.",
)
def _() -> object:
    from torch.export.passes import move_to_device_pass

    model = torch.nn.Linear(3, 2).eval()
    program = torch.export.export(model, (torch.zeros(2, 3),))
    moved = move_to_device_pass(program, "meta")
    assert moved.state_dict["weight"].device.type == "meta"
    return "moved to meta"


@claim("onnx", "docs/tricks/export.md", "An ONNX file holds less than 2 GB.")
def _() -> object:
    import onnx

    assert onnx.checker.MAXIMUM_PROTOBUF == 2**31 - 1
    return f"{onnx.checker.MAXIMUM_PROTOBUF:,} bytes"


@claim(
    "onnxruntime",
    "docs/guides/serve.md",
    "ONNX Runtime uses all cores in each process: limit the threads with `intra_op_num_threads` of "
    "`onnxruntime.SessionOptions`.",
)
def _() -> object:
    code = """
        import os, numpy, onnx, onnxruntime
        from onnx import helper
        node = helper.make_node("Relu", ["x"], ["y"])
        x, y = (helper.make_tensor_value_info(n, 1, [1]) for n in "xy")
        graph = helper.make_graph([node], "g", [x], [y])
        opset = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=9)
        def threads(number):
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = number
            before = len(os.listdir("/proc/self/task"))
            session = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            return 1 + len(os.listdir("/proc/self/task")) - before
        print(threads(0), threads(1), len(os.sched_getaffinity(0)))
    """
    all_cores, one, cores = map(int, printed(code).split())
    assert one == 1 and (all_cores > 1 or cores == 1), (all_cores, one, cores)
    return f"{all_cores} threads on {cores} CPUs, and {one} with a limit of 1"


@claim(
    "torch",
    "docs/tricks/pretrained.md",
    "`load_state_dict(strict=False)` ignores names that do not fit, so a wrong prefix leaves all "
    "weights random.",
)
def _() -> object:
    model = torch.nn.Linear(2, 2)
    before = model.weight.clone()
    state = {f"module.{k}": v + 1 for k, v in model.state_dict().items()}
    model.load_state_dict(state, strict=False)
    assert torch.equal(model.weight, before)
    return raised(lambda: model.load_state_dict(state))


@claim(
    "safetensors torch",
    "docs/tricks/timm.md",
    "Only `model.safetensors` is read: a `pytorch_model.bin` may hold code.",
)
def _() -> object:
    from safetensors.torch import save_file

    with folder() as place:
        return raised(lambda: save_file({"a": Code(place)}, place / "a.safetensors"))
