"""Statements that need a GPU, a cluster, a network or another program: file, quote and reason."""

GPU = "needs a GPU"
GPUS = "needs several GPUs"

NOT_RUN: list[tuple[str, str, str]] = [
    (
        "docs/tricks/channels_last.md",
        "On a GPU, `DistributedDataParallel` warns if only the images have the layout.",
        "needs a GPU: on a CPU, torch 2.7 and 2.14 do not warn",
    ),
    (
        "docs/tricks/channels_last.md",
        "Mixup's `roll` returns the default layout on a GPU",
        GPU,
    ),
    (
        "docs/tricks/channels_last.md",
        "`DataParallel` copies weights in the default layout to the other GPUs.",
        GPUS,
    ),
    (
        "docs/tricks/cudnn_benchmark.md",
        (
            "`torch.backends.cudnn.deterministic = True` does not help: torch may choose another "
            "deterministic algorithm next time."
        ),
        GPU,
    ),
    (
        "docs/tricks/cudnn_benchmark.md",
        "Fast algorithms may need more memory.",
        GPU,
    ),
    (
        "docs/tricks/prefetcher.md",
        "Only a copy from pinned memory is asynchronous on CUDA.",
        GPU,
    ),
    (
        "docs/tricks/prefetcher.md",
        "Call `record_stream` on each tensor of the batch.",
        GPU,
    ),
    (
        "docs/tricks/seeding.md",
        "cuBLAS reads `CUBLAS_WORKSPACE_CONFIG` when it starts.",
        GPU,
    ),
    (
        "docs/tricks/compile.md",
        "Synchronised batch-norm breaks the graph at each layer (`resnet18`: 38 graphs, not 2).",
        GPU,
    ),
    (
        "docs/tricks/sync_bn.md",
        (
            "A rank without images, at the end of an epoch, fails in mixed precision with torch 2.7 to "
            "2.15"
        ),
        GPUS,
    ),
    (
        "docs/tricks/parallel.md",
        (
            "`DataParallel`: changes that the model makes to its own attributes in `forward` are lost on "
            "all GPUs but the first."
        ),
        GPUS,
    ),
    (
        "docs/several-processes.md",
        "`fsdp` communicates 1.5 times as much as `ddp`",
        GPUS,
    ),
    (
        "docs/several-processes.md",
        "By default, gloo uses the address of the host name, which is the loopback on many machines.",
        "needs two machines: a proof has them as network namespaces",
    ),
    (
        "docs/several-processes.md",
        "On GPUs, the NCCL watchdog may notice first.",
        GPUS,
    ),
    (
        "docs/recipes/environment.md",
        (
            "torch silently ignores a misspelt variable, such as `CUDA_VISIBLE_DEVICE`, and a variable "
            "that is set after CUDA has started."
        ),
        GPU,
    ),
    (
        "docs/recipes/environment.md",
        "Without `PCI_BUS_ID`, the numbers are ordered by speed",
        GPUS,
    ),
    (
        "docs/recipes/environment.md",
        "`conda install pytorch -c pytorch` still succeeds, but installs at most 2.5",
        "needs conda and a network",
    ),
    (
        "docs/recipes/environment.md",
        "If you upgrade torch alone, torchvision's compiled operators do not load.",
        "needs a second torch of a gigabyte; torchvision 0.29 allows every later torch",
    ),
    (
        "docs/recipes/environment.md",
        "a reset needs root and a GPU that no process uses.",
        GPU,
    ),
    (
        "docs/recipes/saving.md",
        "a process keeps its context until it ends.",
        GPU,
    ),
    (
        "docs/recipes/speed.md",
        "with cuDNN 7 and cuBLAS 10, other sizes did not use tensor cores.",
        "needs old GPU libraries",
    ),
    (
        "docs/recipes/images.md",
        "`cv2.imread(path)[None]` has four errors",
        "needs OpenCV",
    ),
    (
        "docs/tricks/summary.md",
        "torchinfo 1.8 counts too few",
        "needs torchinfo; with 1.8.0 and torch 2.14.1, it counted 173 M and 322 M",
    ),
    (
        "docs/tricks/seeding.md",
        "Transforms of albumentations have generators of their own.",
        "needs albumentations",
    ),
    (
        "docs/tricks/wandb.md",
        (
            "The project needs a version below 0.31, which has another default server that rejects keys "
            "of wandb.ai."
        ),
        "needs a network",
    ),
    (
        "docs/tricks/wandb.md",
        "A scheduler that signals all processes, such as `scancel`, also stops the service of W&B.",
        "needs a cluster",
    ),
    (
        "docs/guides/slurm.md",
        "Without `B:`, Slurm sends the signal to the processes of `srun`.",
        "needs Slurm",
    ),
    (
        "docs/guides/docker.md",
        "`docker stop` sends SIGTERM to PID 1, and SIGKILL after 10 seconds, or after `-t` seconds.",
        "needs Docker",
    ),
    (
        "docs/guides/docker.md",
        (
            "DataLoader workers pass batches through `/dev/shm`, which has 64 MB in a container by "
            "default."
        ),
        "needs Docker",
    ),
    (
        "docs/guides/docker.md",
        "`python:3.12-slim` has no C++ compiler.",
        "needs Docker and a network",
    ),
    (
        "docs/tricks/features.md",
        "With torchvision's `create_feature_extractor`, tracing failed for 20 of 98 models of timm.",
        "takes an hour",
    ),
    (
        "docs/figures.md",
        "For each file, Copier compiles a template and each part of its path, and runs git once.",
        "measured by make bench",
    ),
]
