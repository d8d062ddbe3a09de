"""`make sizes`: how large folders, modules and functions are. Gates nothing."""

import ast
import statistics
from collections import Counter
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

folders = Counter(str(Path(name).parent) for _, name in modules)
print(f"src: {sum(lines for lines, _ in modules):,} lines in {len(modules)} modules")
print("widest folders:")
for folder, count in folders.most_common(5):
    print(f"  {count:4} {folder}")
for title, sizes in (("modules", modules), ("functions", functions)):
    percentiles = statistics.quantiles((length for length, _ in sizes), n=20)
    print(
        f"{title}: {len(sizes)}, median {percentiles[9]:.0f} lines, "
        f"90 % under {percentiles[17]:.0f}, 95 % under {percentiles[18]:.0f}"
    )
    for length, name in sorted(sizes, reverse=True)[:5]:
        print(f"  {length:4} {name}")
