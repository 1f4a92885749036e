"""The parts of the exported C file that do not depend on the model."""

from typing import NamedTuple

DECLARATIONS = """\
/* Calibrated probabilities from raw values, in C99 without allocation; link with -lm.

   Compile this file once. To use it elsewhere, include it after defining {guard}_DECLARATIONS, which leaves the
   struct and the prototype. Texts are UTF-8; a value that training did not know is treated as unseen; a prediction
   that is NAN gives NAN. */
#ifndef {guard}_ROW
#define {guard}_ROW

struct {prefix}_row {{
{members}
}};

double {prefix}_calibrate(const struct {prefix}_row *row);

#endif
#ifndef {guard}_DECLARATIONS

#include <math.h>
#include <stddef.h>
#include <string.h>
"""

IDENTITY = """\
double {prefix}_calibrate(const struct {prefix}_row *row)
{{
    return row->{score};
}}
"""


class Kind(NamedTuple):
    """How C holds a feature's values and finds one among the sorted known ones."""

    declared: str
    missing: str
    """What stands for a missing value."""
    key: str = ""
    """Type of a known value."""
    absent: str = ""
    """Whether ``x`` is missing."""
    order: str = ""
    """Below 0 where a known value lies below ``x``, 0 where they are equal."""


KINDS = {
    "number": Kind("double ", "NAN"),
    "text": Kind("const char *", "NULL", "char *const", "x == NULL", "strcmp(keys[middle], x)"),
    "integer": Kind("const long long *", "NULL", "long long", "x == NULL", "(keys[middle] > *x) - (keys[middle] < *x)"),
    "real": Kind("double ", "NAN", "double", "isnan(x)", "(keys[middle] > x) - (keys[middle] < x)"),
    "flag": Kind("int ", "-1", "int", "x < 0", "keys[middle] - (x != 0)"),
}

CODE_OF_NUMBER = """\
/* Number of edges below x: the intervals are (edge, next edge]. */
static int code_of_number(double x, const double *edges, int n)
{
    int low = 0, high = n;
    if (isnan(x)) {
        return n + 1;
    }
    while (low < high) {
        int middle = (low + high) / 2;
        if (edges[middle] < x) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}
"""

CODE_OF_KEY = """\
/* Code of a value among sorted keys; `missing` where there is none, the next code where it is unknown. */
static int code_of_{name}({kind.declared}x, const {kind.key} *keys, const int *codes, int n, int missing)
{{
    int low = 0, high = n;
    if ({kind.absent}) {{
        return missing;
    }}
    while (low < high) {{
        int middle = (low + high) / 2, order = {kind.order};
        if (order == 0) {{
            return codes[middle];
        }}
        if (order < 0) {{
            low = middle + 1;
        }} else {{
            high = middle;
        }}
    }}
    return missing + 1;
}}
"""

WALK = """\
/* The step of the node where a row stops; a node's runs of codes each name a child, or -1 to stop. */
static double step_of_tree(int node, const int *code)
{{
    while (node_feature[node] >= 0) {{
        int x = code[node_feature[node]], child;
        int low = node_first_run[node], high = node_first_run[node + 1];
        while (high - low > 1) {{
            int middle = (low + high) / 2;
            if (run_start[middle] <= x) {{
                low = middle;
            }} else {{
                high = middle;
            }}
        }}
        child = run_child[low];
        if (child < 0) {{
            break;
        }}
        node = child;
    }}
    return node_step[node];
}}

double {prefix}_calibrate(const struct {prefix}_row *row)
{{
    int code[{n_features}], i;
    const double p = row->{score};
    if (isnan(p)) {{
        return p;
    }}
{codes}
{move}
}}
"""

MOVES = {
    "linear": """\
    {{
        double product = 1.0, q;
        for (i = 0; i < N_TREES; i++) {{
            product *= step_of_tree(tree_root[i], code);
        }}
        q = p * product;
        return q < 0.0 ? 0.0 : q > 1.0 ? 1.0 : q;
    }}""",
    "odds": """\
    {{
        const double low = {epsilon!r}, high = 1.0 - {epsilon!r};
        const double held = p < low ? low : p > high ? high : p;
        double total = 0.0, z, small;
        for (i = 0; i < N_TREES; i++) {{
            total += step_of_tree(tree_root[i], code);
        }}
        z = log(held) - log1p(-held) + total;
        small = exp(-fabs(z));
        return (z >= 0.0 ? 1.0 : small) / (1.0 + small);
    }}""",
}
