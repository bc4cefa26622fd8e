"""Statements about h5py and HDF5."""

import warnings

from claimed.claim import claim, folder, python, raised


@claim(
    "h5py",
    "docs/tricks/hdf5.md",
    "Close the inherited handle before you open the file in a worker: otherwise HDF5 returns the "
    "same descriptor.",
)
def _() -> object:
    with folder() as place:
        seen = python(f"""
            import os, h5py
            path = {str(place / "a.h5")!r}
            with h5py.File(path, "w") as file:
                file["x"] = range(10)
            def descriptors():
                links = (os.path.join("/proc/self/fd", n) for n in os.listdir("/proc/self/fd"))
                return sorted(os.path.basename(x) for x in links
                              if os.path.exists(x) and os.readlink(x) == path)
            file = h5py.File(path, "r")
            before = descriptors()
            if os.fork() == 0:
                again = h5py.File(path, "r")
                print(before == descriptors(), flush=True)
                os._exit(0)
            os.wait()
        """)
    assert seen.stdout.split() == ["True"], seen.stdout + seen.stderr
    return "a fork that opens the file again has no second descriptor"


@claim(
    "h5py",
    "docs/tricks/hdf5.md",
    "with h5py 3.16 on Linux, 48,000 reads of two such workers were right.",
)
def _() -> object:
    with folder() as place:
        seen = python(f"""
            import os, h5py, numpy as np
            path = {str(place / "a.h5")!r}
            rows = np.arange(1000 * 64).reshape(1000, 64)
            with h5py.File(path, "w") as file:
                file.create_dataset("x", data=rows, chunks=(10, 64))
            images = h5py.File(path, "r")["x"]
            images[0]
            for seed in range(2):
                if os.fork() == 0:
                    random = np.random.default_rng(seed)
                    order = random.integers(1000, size=24_000)
                    wrong = sum(not (images[int(i)] == rows[i]).all() for i in order)
                    print(wrong, flush=True)
                    os._exit(0)
            os.wait(), os.wait()
        """)
    assert seen.stdout.split() == ["0", "0"], seen
    return "no wrong row"


@claim("h5py", "docs/tricks/hdf5.md", "A handle cannot be pickled for spawned workers.")
def _() -> object:
    import pickle

    import h5py

    with folder() as place, h5py.File(place / "a.h5", "w") as file:
        return raised(lambda: pickle.dumps(file), TypeError)


@claim(
    "h5py",
    "docs/recipes/data.md",
    "`swmr=True`, for a file that another process writes, needs mode `r`; in other modes h5py "
    "warns and ignores it.",
)
def _() -> object:
    import h5py

    with folder() as place, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with h5py.File(place / "a.h5", "w", swmr=True) as file:
            assert not file.swmr_mode
    assert caught
    return str(caught[0].message)[:80]


@claim(
    "h5py",
    "docs/recipes/data.md",
    "a list of rows must be increasing, without duplicates: sort a shuffled batch first.",
)
def _() -> object:
    import h5py

    with folder() as place, h5py.File(place / "a.h5", "w") as file:
        file["x"] = range(9)
        assert file["x"][[1, 4]].tolist() == [1, 4]
        raised(lambda: file["x"][[4, 1]], TypeError)
        return raised(lambda: file["x"][[1, 1]], TypeError)


@claim(
    "h5py",
    "docs/tricks/hdf5.md",
    "`images[rows]` with a list of rows is much slower than a loop if the chunks are small.",
)
def _() -> object:
    import h5py
    import numpy as np
    from torch.utils.benchmark import Timer

    with folder() as place, h5py.File(place / "a.h5", "w") as file:
        shape = 2000, 3, 32, 32
        images = file.create_dataset("x", shape, "uint8", chunks=(1, *shape[1:]))
        images[:] = 1
        rows = np.sort(np.random.default_rng(0).permutation(2000)[:128])
        names = {"images": images, "rows": rows}
        many, loop = (
            Timer(code, globals=names).blocked_autorange(min_run_time=0.5).median
            for code in ("images[rows]", "[images[row] for row in rows]")
        )
    assert many > loop, (many, loop)
    return f"{many * 1e3:.1f} ms and {loop * 1e3:.1f} ms for 128 rows"


@claim(
    "h5py",
    "docs/tricks/hdf5.md",
    "Opening the file in each `__getitem__` is correct, but an order of magnitude slower.",
)
def _() -> object:
    import h5py
    from torch.utils.benchmark import Timer

    with folder() as place:
        path = place / "a.h5"
        with h5py.File(path, "w") as file:
            file["x"] = [[1] * 1000] * 100
        with h5py.File(path) as file:
            names = {"h5py": h5py, "path": path, "images": file["x"]}
            opened, kept = (
                Timer(code, globals=names).blocked_autorange(min_run_time=0.5).median
                for code in ("h5py.File(path)['x'][5]", "images[5]")
            )
    assert opened > 5 * kept, (opened, kept)
    return f"{opened / kept:.1f} times"
