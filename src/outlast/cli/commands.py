"""The commands, in the groups in which `outlast --help` shows them.

Commands are listed by import path, so that each loads only what it needs itself. What a command
does is stated once, in its docstring: `outlast --help` reads the first line without importing it.
"""

import ast
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec

from outlast.errors import OutlastError


@dataclass(frozen=True, slots=True)
class Command:
    """A command: the group it is shown in, the function that runs it, and examples of its use."""

    group: str
    path: str
    examples: tuple[str, ...]
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Former options and their present names. They are refused, so that no script is misread."""

    @property
    def name(self) -> str:
        return self.path.rpartition(":")[2].removesuffix("_command")

    @property
    def epilogue(self) -> str:
        return "\n".join(["Examples:", *(f"  outlast {example}" for example in self.examples)])

    def refuse_renamed(self, arguments: Iterable[str]) -> None:
        """Refuse the former name of an option. What follows `--` belongs to another command."""
        for argument in itertools.takewhile(lambda one: one != "--", arguments):
            option, _, value = argument.partition("=")
            if new := self.renamed.get(option):
                written = f"{new}={value}" if value else new
                raise OutlastError(
                    f"{option} has been renamed to {new}.",
                    hint=f"Use: outlast {self.name} {written}",
                )

    def summary(self) -> str:
        """The first line of the function's docstring."""
        return self.description().partition("\n")[0]

    def description(self) -> str:
        """The function's docstring without its parameters, one line per paragraph.

        Read from the source, so that the function need not be imported. Help wraps each line to
        the width of the terminal.
        """
        module, _, function = self.path.partition(":")
        spec = find_spec(module)
        source = getattr(spec.loader, "get_source", lambda _: None)(module) if spec else None
        for node in ast.parse(source or "").body:
            if isinstance(node, ast.FunctionDef) and node.name == function:
                text = (ast.get_docstring(node) or "").partition("\n\nParameters\n")[0]
                return "\n\n".join(" ".join(one.split()) for one in text.split("\n\n"))
        raise AssertionError(f"{self.path} is not a function in a source file.")


RUN = "Run and rehearse"
BATCH = "Batch jobs"
PLAN = "Plan capacity"
SHIP = "Write and check manifests"
CLUSTER = "Run on a cluster"
OPERATE = "This installation"
GROUPS = (RUN, BATCH, PLAN, SHIP, CLUSTER, OPERATE)

COMMANDS = (
    Command(
        RUN,
        "outlast.cli.run.drill:drill",
        (
            "drill --expect '{dir}/model.npz' -- python train.py {dir}",
            "drill --no-notice 0.2 --report drill.html -- python train.py",
            "drill --workers 4 --expect results.jsonl -- python work.py",
        ),
        renamed={"--duplicates": "--overlap", "--no-baseline": "--skip-baseline"},
    ),
    Command(
        RUN,
        "outlast.cli.run.demo:demo",
        ("demo", "demo --seed 7 --out /tmp/demo", "demo --format json"),
    ),
    Command(
        RUN,
        "outlast.cli.run.scaffold:scaffold",
        (
            "scaffold training",
            "scaffold batch embeddings",
            "scaffold training . --name tiny-gpt",
            "scaffold training --framework huggingface",
        ),
    ),
    # `exec` prints its own help, before anything outside the standard library is imported.
    Command(RUN, "outlast.cli.run.exec:exec_command", ("exec -- python train.py",)),
    Command(
        RUN,
        "outlast.cli.run.checkpoints:checkpoints",
        (
            "checkpoints gs://runs/tiny",
            "checkpoints ./run --verify",
            "checkpoints ./run --diff 400 500",
            "checkpoints ./run --export 500 model.safetensors",
            "checkpoints ./run --prune --keep-last 2",
        ),
    ),
    Command(
        BATCH,
        "outlast.cli.batch.publish:publish",
        (
            "publish sqlite:///jobs.db texts.jsonl --key id",
            "publish sqlite:///jobs.db images/",
            "publish postgresql://db/jobs - < texts.jsonl",
        ),
    ),
    Command(
        BATCH,
        "outlast.cli.batch.work:work",
        (
            "work embed:embed --queue sqlite:///jobs.db --sink sqlite:///jobs.db",
            "work classify:Classifier --batch --chunk 100 --result-version v2",
            "work embed:embed --until forever --lease 30s --timeout 10m",
        ),
        renamed={"--version": "--result-version"},
    ),
    Command(
        BATCH,
        "outlast.cli.batch.queue:queue",
        (
            "queue sqlite:///jobs.db",
            "queue sqlite:///jobs.db --watch",
            "queue sqlite:///jobs.db --dead",
            "queue sqlite:///jobs.db --retry-dead",
        ),
    ),
    Command(
        BATCH,
        "outlast.cli.batch.results:results",
        (
            "results sqlite:///jobs.db",
            "results gs://bucket/results --export results.jsonl",
            "results sqlite:///jobs.db --export results.parquet",
        ),
    ),
    Command(
        PLAN,
        "outlast.cli.plan.plan:plan",
        (
            "plan workload.yaml",
            "plan workload.yaml --set deadline=60h --html plan.html",
            "plan workload.yaml --sweep checkpoint.size=1GiB..100GiB",
        ),
    ),
    Command(
        PLAN,
        "outlast.cli.plan.simulate:simulate",
        (
            "simulate trace.json --save-time 60s",
            "simulate trace.json --work 6h --deadline 10h --machine a2-highgpu-1g",
        ),
        renamed={
            "--save": "--save-time",
            "--restart": "--restart-time",
            "--unannounced": "--unannounced-share",
            "--every": "--start-every",
        },
    ),
    Command(
        PLAN,
        "outlast.cli.plan.prices:prices",
        (
            "prices a2-highgpu-1g us-central1",
            "prices --import catalog.csv --date 2026-08-21 --format csv",
        ),
    ),
    Command(
        PLAN,
        "outlast.cli.plan.learn:learn",
        ("learn gs://runs/tiny --workload workload.yaml",),
    ),
    Command(
        PLAN,
        "outlast.cli.plan.why:why",
        ("why gs://runs/tiny --workload workload.yaml", "why ./run --price 2.12"),
    ),
    Command(
        SHIP,
        "outlast.cli.ship.render:render",
        (
            "render workload.yaml",
            "render workload.yaml --out manifests",
            "render workload.yaml --set tier=flex-start --set work.hours=40",
            "render workload.yaml | kubectl apply -f -",
        ),
    ),
    Command(
        SHIP,
        "outlast.cli.ship.lint:lint",
        (
            "lint k8s/",
            "lint k8s/ --pools create-pools.sh",
            "lint k8s/ --diff --unsafe-fixes",
            "lint - < jobs.yaml",
        ),
    ),
    Command(SHIP, "outlast.cli.ship.rules:rules", ("rules", "rules short-grace")),
    Command(SHIP, "outlast.cli.ship.schema:schema", ("schema > workload.schema.json",)),
    Command(
        CLUSTER,
        "outlast.cli.cluster.doctor:doctor",
        (
            "doctor workload.yaml",
            "doctor --context gke_project_us-central1_ml",
            "doctor --role submit --namespace team-a | kubectl apply -f -",
        ),
    ),
    Command(
        CLUSTER,
        "outlast.cli.cluster.submit:submit",
        (
            "submit workload.yaml",
            "submit workload.yaml --dry-run --setup",
            "submit workload.yaml --set work.hours=40 --wait finished",
            "submit manifests/ --context gke_project_us-central1_ml",
        ),
    ),
    Command(
        CLUSTER,
        "outlast.cli.cluster.watch:watch",
        (
            "watch tiny-gpt",
            "watch workload.yaml --once",
            "watch gs://runs/tiny --once --format json",
            "watch --all --namespace team-a",
        ),
    ),
    Command(
        CLUSTER,
        "outlast.cli.cluster.logs:logs",
        ("logs tiny-gpt", "logs tiny-gpt --follow", "logs workload.yaml --attempt 2 --tail 100"),
    ),
    Command(
        CLUSTER,
        "outlast.cli.cluster.stop:stop",
        ("stop tiny-gpt", "stop tiny-gpt --dry-run", "stop workload.yaml --timeout 5m"),
    ),
    Command(
        CLUSTER,
        "outlast.cli.cluster.resume:resume",
        ("resume tiny-gpt", "resume workload.yaml --tier on-demand"),
    ),
    Command(
        OPERATE,
        "outlast.cli.operate.settings:settings",
        ("settings", "settings --format json"),
    ),
    Command(
        OPERATE,
        "outlast.cli.operate.completion:completion",
        ("completion bash", "completion zsh --install"),
    ),
)
