"""Writes the C tables made from ops.py: `python3 -m generator.tables table|reference -o FILE`."""

import argparse
from pathlib import Path

from generator.ops import ELEMENTWISE, OPS

HEADER = "/* Made by generator/tables.py from generator/ops.py: change that. */\n"


def parser_table():
    """C source of gnf_ops[], the table that runtime/problem.c parses with."""
    rows = []
    for op in OPS:
        params = ", ".join(
            f"{{\"{p.name}\", '{p.type}', {'true' if p.default is None else 'false'}, {repr(float(p.default or 0))}}}" for p in op.params
        )
        rows.append(f'    {{"{op.name}", GNF_OP_{op.kind}, {len(op.params)}, {{{params or "{0}"}}}}},\n')
    return f'{HEADER}#include "problem.h"\n\nconst struct gnf_op gnf_ops[] = {{\n{"".join(rows)}    {{0}},\n}};\n'


def reference_table():
    """C source of gnf_op_references[], the float64 form of every elementwise row, in the order of gnf_ops[]."""
    functions, rows = [], []
    for op in OPS:
        if op.kind != ELEMENTWISE:
            rows.append("    NULL,\n")
            continue
        scalars = "".join(f" const double s{k} = s[{k}];" for k, p in enumerate(op.params)) or " (void)s;"
        functions.append(
            f"static double {op.name}_reference(double v, const double *s)\n{{\n   {scalars}\n    return {op.reference};\n}}\n"
        )
        rows.append(f"    {op.name}_reference,\n")
    return (
        f'{HEADER}#include "cli/reference.h"\n#include <math.h>\n#include <stddef.h>\n\n'
        + "".join(functions)
        + "\nconst gnf_reference_fn gnf_op_references[] = {\n"
        + "".join(rows)
        + "};\n"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=["table", "reference"])
    parser.add_argument("-o", "--output", required=True, type=Path)
    arguments = parser.parse_args()
    text = parser_table() if arguments.table == "table" else reference_table()
    arguments.output.write_text(text, encoding="ascii")


if __name__ == "__main__":
    main()
