"""Extras of pyproject.toml: each has an index for the builds of torch, and excludes the others."""

import tomllib
from pathlib import Path

PROJECT = tomllib.loads(
    (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
)


def test_each_build_has_an_index_and_excludes_the_others() -> None:
    uv = PROJECT["tool"]["uv"]
    [builds] = [[one["extra"] for one in several] for several in uv["conflicts"]]
    indexes = {index["name"]: index for index in uv["index"]}
    extras = PROJECT["project"]["optional-dependencies"]
    for build in builds:
        for package in extras[build]:
            [index] = [
                source["index"]
                for source in uv["sources"][package]
                if source["extra"] == build
            ]
            assert indexes[index]["explicit"]  # Other packages are not taken from it.
