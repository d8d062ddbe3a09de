"""`make sizes`: how long modules and functions are. Gates nothing."""

import ast
import statistics
from pathlib import Path

modules = []
functions = []
for path in sorted(Path("src").rglob("*.py")):
    source = path.read_text()
    modules.append((source.count("\n"), str(path)))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            functions.append((length, f"{path}:{node.lineno} {node.name}"))

for title, sizes in (("modules", modules), ("functions", functions)):
    lengths = sorted(length for length, _ in sizes)
    deciles = statistics.quantiles(lengths, n=10)
    print(
        f"{title}: {len(sizes)}, median {deciles[4]:.0f} lines, nine of ten under {deciles[8]:.0f}"
    )
    for length, name in sorted(sizes, reverse=True)[:5]:
        print(f"  {length:4} {name}")
