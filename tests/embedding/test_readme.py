"""README.md shows the example as it is, and names every operation."""

import os
import sys
from pathlib import Path

root = Path(os.environ["GNF_SOURCE"])
sys.path.insert(0, str(root))
from generator import ops  # noqa: E402

readme = (root / "README.md").read_text(encoding="utf-8")
example = (root / "tests/embedding/example.c").read_text(encoding="utf-8")
faults = [] if f"```c\n{example}```" in readme else ["README.md's C example is not tests/embedding/example.c"]
faults += [f"README.md does not name the operation {op.name}" for op in ops.OPS if op.name not in readme]
faults += [] if len(example.splitlines()) <= 40 else ["the example has more than 40 lines"]
print(*faults or ["ok"], sep="\n")
sys.exit(bool(faults))
