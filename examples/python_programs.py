"""A program written in Python: SGD with momentum over two ranks, on NumPy arrays, with a picture of its schedule.

    python examples/python_programs.py [--short] [-o sgd.html]
"""

import argparse

import numpy as np

import weft


@weft.program
def sgd(P: weft.Tensors, lr: weft.Scalar, g: weft.In("f32[P]", weft.local), m: weft.State("f32[P]"), w: weft.State("f32[P]")):
    """Gradients differ by rank; moments and weights are the same on all."""
    momentum = weft.let(0.9)
    a = weft.all_reduce(weft.avg, g)
    m1 = momentum * m + a
    w1 = w - lr * m1
    weft.update(m, m1)
    weft.update(w, w1)
    weft.out(w1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--short", action="store_true")
    parser.add_argument("-o", "--output", help="write program, pictures and predictions as a page")
    options = parser.parse_args()
    shapes = [(64, 32), (64,)] if options.short else [(2048, 1024), (2048,)]

    print(sgd.show(schedule="fused"))
    table = sgd.explain(ranks=2, P=shapes)
    print(table)
    if options.output:
        with open(options.output, "w", encoding="utf-8") as page:
            page.write(sgd._repr_html_() + sgd.schedules()[1]._repr_html_() + table._repr_html_())

    def body(rank):
        step = rank.prepare(sgd, schedule="fused", P=shapes)
        step.write_state("m", np.zeros(sum(int(np.prod(s)) for s in shapes), np.float32))
        step.write_state("w", np.ones(sum(int(np.prod(s)) for s in shapes), np.float32))
        for gradient in step.data("g"):  # memory of Weft's, which peers read in place
            gradient[:] = rank.rank
        for _ in range(3):
            step.launch(lr=0.1)
        return step.data("w1")[0][:4].copy()

    print("weights after three steps:", *weft.run(2, body))


if __name__ == "__main__":
    main()
