"""The commands and what they share: help, version, errors, exit codes.

Commands are named here as strings, so that each loads only what it needs itself.
"""

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError, Parameter, UnknownCommandError

from outlast import __version__
from outlast.cli import exec as exec_module
from outlast.cli.messages import print_error
from outlast.errors import OutlastError
from outlast.queue.errors import QueueUnavailable
from outlast.results.errors import SinkUnavailable

app = App(
    name="outlast",
    help="Make AI workloads finish on capacity that will be taken away.",
    version=f"outlast {__version__}",
    help_epilogue="examples:\n  outlast exec -- python train.py\n  outlast settings --format json",
    help_format="plaintext",
    result_action="return_value",
    default_parameter=Parameter(negative=()),
)
app.command(
    "outlast.cli.drill:drill",
    name="drill",
    help="Evict a command as a Spot cluster would, and say whether it survived.",
    help_epilogue="examples:\n"
    "  outlast drill --expect '{dir}/model.npz' -- python train.py {dir}\n"
    "  outlast drill --evictions 5 --no-notice 0.2 --report drill.html -- python train.py\n"
    "  outlast drill --workers 4 --expect results.jsonl -- python work.py",
)
app.command(
    "outlast.cli.demo:demo",
    name="demo",
    help="Train a small model and score with it, evicted all the while; takes a minute.",
    help_epilogue="examples:\n"
    "  outlast demo\n"
    "  outlast demo --seed 7 --out /tmp/demo\n"
    "  outlast demo --format json",
)
app.command(
    "outlast.cli.scaffold:scaffold",
    name="scaffold",
    help="Write a small project that survives evictions as it is.",
    help_epilogue="examples:\n"
    "  outlast scaffold training\n"
    "  outlast scaffold batch embeddings\n"
    "  outlast scaffold training . --name tiny-gpt",
)
app.command(
    "outlast.cli.exec:exec_command",
    name="exec",
    help="Run a command as a container's first process should.",
    help_epilogue=f"examples:\n{exec_module.EXAMPLES}",
)
app.command(
    "outlast.cli.checkpoints:checkpoints",
    name="checkpoints",
    help="List the checkpoints of a run; verify, compare, export or prune them.",
    help_epilogue="examples:\n"
    "  outlast checkpoints gs://runs/tiny\n"
    "  outlast checkpoints ./run --verify\n"
    "  outlast checkpoints ./run --diff 400 500\n"
    "  outlast checkpoints ./run --export 500 model.safetensors\n"
    "  outlast checkpoints ./run --prune --keep-last 2",
)
app.command(
    "outlast.cli.publish:publish",
    name="publish",
    help="Put items into a queue: JSONL, CSV, a folder of files, standard input.",
    help_epilogue="examples:\n"
    "  outlast publish sqlite:///jobs.db texts.jsonl --key id\n"
    "  outlast publish sqlite:///jobs.db images/\n"
    "  zcat texts.jsonl.gz | outlast publish postgresql://db/jobs -",
)
app.command(
    "outlast.cli.work:work",
    name="work",
    help="Work on the items of a queue until it is drained.",
    help_epilogue="examples:\n"
    "  outlast work embed:embed --queue sqlite:///jobs.db --sink sqlite:///jobs.db\n"
    "  outlast work classify:Classifier --batch --chunk 100 --version resnet50-2\n"
    "  outlast work embed:embed --until forever --lease 30s --timeout 10m",
)
app.command(
    "outlast.cli.queue:queue",
    name="queue",
    help="Show what is left in a queue, how fast it goes, and what was given up.",
    help_epilogue="examples:\n"
    "  outlast queue sqlite:///jobs.db\n"
    "  outlast queue sqlite:///jobs.db --watch\n"
    "  outlast queue sqlite:///jobs.db --dead\n"
    "  outlast queue sqlite:///jobs.db --retry-dead",
)
app.command(
    "outlast.cli.results:results",
    name="results",
    help="Count the results in a sink, or write them into a file.",
    help_epilogue="examples:\n"
    "  outlast results sqlite:///jobs.db\n"
    "  outlast results gs://bucket/results --export results.jsonl\n"
    "  outlast results sqlite:///jobs.db --export results.parquet",
)
app.command(
    "outlast.cli.plan:plan",
    name="plan",
    help="Say which capacity suits a workload, what it costs, and whether it is done in time.",
    help_epilogue="examples:\n"
    "  outlast plan workload.yaml\n"
    "  outlast plan workload.yaml --set deadline=60h --html plan.html\n"
    "  outlast plan workload.yaml --sweep checkpoint.size=1GiB..100GiB",
)
app.command(
    "outlast.cli.simulate:simulate",
    name="simulate",
    help="Replay traces of Spot machines against policies.",
    help_epilogue="examples:\n"
    "  outlast simulate trace.json --save 60s\n"
    "  outlast simulate trace.json --work 6h --deadline 10h --machine a2-highgpu-1g",
)
app.command(
    "outlast.cli.prices:prices",
    name="prices",
    help="Show what machines cost, how old that is and where it comes from.",
    help_epilogue="examples:\n"
    "  outlast prices a2-highgpu-1g us-central1\n"
    "  outlast prices --import catalogue.csv --date 2026-08-21 --format csv",
)
app.command(
    "outlast.cli.learn:learn",
    name="learn",
    help="Turn what runs have measured into a diff of the workload file.",
    help_epilogue="examples:\n  outlast learn gs://runs/tiny --workload workload.yaml",
)
app.command(
    "outlast.cli.why:why",
    name="why",
    help="Say where the time and the money of a run went.",
    help_epilogue="examples:\n"
    "  outlast why gs://runs/tiny --workload workload.yaml\n"
    "  outlast why ./run --price 2.12",
)
app.command(
    "outlast.cli.render:render",
    name="render",
    help="Write the manifests of a workload file, each line with its reason.",
    help_epilogue="examples:\n"
    "  outlast render workload.yaml\n"
    "  outlast render workload.yaml --out manifests\n"
    "  outlast render workload.yaml --set tier=flex-start --set work.hours=40\n"
    "  outlast render workload.yaml | kubectl apply -f -",
)
app.command(
    "outlast.cli.lint:lint",
    name="lint",
    help="Review manifests for what goes wrong on Spot and flex-start nodes.",
    help_epilogue="examples:\n"
    "  outlast lint k8s/\n"
    "  outlast lint k8s/ --pools create-pools.sh\n"
    "  outlast lint k8s/ --diff --unsafe-fixes\n"
    "  kubectl get jobs -o yaml | outlast lint -",
)
app.command(
    "outlast.cli.rules:rules",
    name="rules",
    help="List the rules of `outlast lint`, or print the manual page of one.",
    help_epilogue="examples:\n  outlast rules\n  outlast rules no-grace",
)
app.command(
    "outlast.cli.schema:schema",
    name="schema",
    help="Print the JSON Schema of workload files.",
    help_epilogue="examples:\n  outlast schema > workload.schema.json",
)
app.command(
    "outlast.cli.settings:settings",
    name="settings",
    help="Show every setting, its value here and where that came from.",
    help_epilogue="examples:\n  outlast settings\n  outlast settings --format json",
)
app.command(
    "outlast.cli.completion:completion",
    name="completion",
    help="Print or install the completion of a shell.",
    help_epilogue="examples:\n  outlast completion bash\n  outlast completion zsh --install",
)


def run(arguments: Sequence[str]) -> int:
    """Run one command and give its exit code. A user's mistake never shows a traceback."""
    if sys.stdout is None:
        # Whoever closed it wants no output; a library that prints needs one nonetheless.
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123 - it stays for good
    try:
        code = app(list(arguments), exit_on_error=False, print_error=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except CycloptsError as error:
        print_error(_as_usage_error(error, arguments))
        return 2
    except (QueueUnavailable, SinkUnavailable) as error:
        print_error(error)
        return 3
    except OutlastError as error:
        print_error(error)
        return 2
    except OSError as error:
        _discard_output()
        if isinstance(error, BrokenPipeError):
            # The reader, such as `head`, has seen enough.
            return 0
        print_error(OutlastError(f"{error}.", hint="Check the place it names, or its disk."))
        return 3


def _discard_output() -> None:
    """Keep Python from flushing, at its end, into what has just refused it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _as_usage_error(error: CycloptsError, arguments: Sequence[str]) -> OutlastError:
    command = "outlast"
    if not isinstance(error, UnknownCommandError) and arguments[:1] and arguments[0] in app:
        command += f" {arguments[0]}"
    return OutlastError(str(error), hint=f"See `{command} --help`.")
