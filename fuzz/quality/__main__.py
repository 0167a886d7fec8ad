"""`python3 -m fuzz.quality`: how good and how fast the tool itself is."""

from __future__ import annotations

import typer

from fuzz.cli.exits import leave
from fuzz.cli.options import add_verbs
from fuzz.quality.array_api import array_api
from fuzz.quality.calibrate.verb import calibrate
from fuzz.quality.detection import detection
from fuzz.quality.explanations import explanations
from fuzz.quality.functions import functions, remainders
from fuzz.quality.impact import impact
from fuzz.quality.matrix_units import matrix_units
from fuzz.quality.newcomer.verb import newcomer
from fuzz.quality.onnx_nodes.verb import onnx
from fuzz.quality.opinfo.verb import opinfo
from fuzz.quality.oracle import centres, oracle
from fuzz.quality.power import power
from fuzz.quality.shipped.verb import shipped
from fuzz.quality.tasks import tasks
from fuzz.quality.throughput import sharing, throughput

app = typer.Typer(
    name="quality",
    help="Measure the tool itself.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
add_verbs(
    app,
    (
        oracle, centres, functions, remainders, power, calibrate, explanations, detection, sharing, throughput,
        newcomer, opinfo, matrix_units, array_api, tasks, onnx, shipped, impact,
    ),
)  # fmt: skip

if __name__ == "__main__":
    leave(app)
