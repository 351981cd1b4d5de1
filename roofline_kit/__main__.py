"""Which machine is this, and what can it do? The command line: its card, the doctor, a recording; a model's sheet."""

import argparse
import json
import os
import sys
from pathlib import Path

FIGURES = (".png", ".svg", ".pdf")


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"{self.prog}: {message}; --help lists what there is.\n")


def main(arguments=None):
    """Run the command line; the exit code."""
    parser = _Parser("python -m roofline_kit",
                     description="What this machine can sustain: its card takes 30 s, a recording minutes. "
                                 "What a language model can do on another: sheet config.json --chip NAME.")
    parser.add_argument("command", nargs="?", default="card", choices=("card", "doctor", "record", "sheet"),
                        help="card: the roofs of this machine (the default); doctor: what to do if it fails; "
                             "record: the operations of the course on it, for others to load; "
                             "sheet: memory and time of a language model on a chip of the table")
    parser.add_argument("config", nargs="?", type=Path, help="sheet: a Hugging Face config.json, or its folder")
    parser.add_argument("--json", action="store_true", help="print card or sheet as JSON, in SI base units")
    parser.add_argument("--plot", metavar="FILE", type=Path, help="draw it into a .png, .svg or .pdf file")
    parser.add_argument("--out", metavar="FILE", type=Path, help="record: the .json file to write")
    parser.add_argument("--fresh", action="store_true", help="measure again even if a card is kept")
    model = parser.add_argument_group("sheet")
    model.add_argument("--chip", help="as 'H100 SXM' or 'H200'")
    model.add_argument("--chips", type=int, default=1, help="how many share the work (1)")
    model.add_argument("--context", type=int, default=8192, help="tokens of each sequence (8192)")
    model.add_argument("--batch", type=int, default=1, help="sequences at a time (1)")
    model.add_argument("--weights", default="bfloat16", help="dtype they are stored in (bfloat16)")
    model.add_argument("--kv", default="bfloat16", help="dtype of the KV cache (bfloat16)")
    model.add_argument("--dtype", default="bfloat16", help="dtype of activations and arithmetic (bfloat16)")
    told, code = parser.parse_args(arguments), 0
    try:
        if told.config and told.command != "sheet":
            parser.error(f"{told.command} takes no file: {told.config}")
        if told.chip and told.command != "sheet":
            parser.error(f"{told.command} is about this machine; a chip is for the sheet of a model: "
                         f"sheet config.json --chip {told.chip!r}")
        if told.command == "doctor":
            from .doctor import doctor

            report = doctor()
            print(report)
            code = int(bool(report.problems))
        elif told.command == "record":
            _record(told)
        elif told.command == "sheet":
            _sheet(told)
        else:
            _card(told)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _fail("stopped before the end: nothing was kept.", 130)
    except BrokenPipeError:                                  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _fail(f"{error.strerror or error}: {error.filename}." if error.filename else f"{error}.")
    except (ImportError, MemoryError, RuntimeError, ValueError) as error:
        return _fail(error)
    return code


def _card(told):
    from .sustained import card, roofline

    if told.plot:
        _refuse_figure(told.plot)                            # before 20 s are spent
    measured = card(told.fresh)
    if told.plot:
        _draw(roofline(measured, "float32"), told.plot)
    print(json.dumps(measured.data, indent=1) if told.json else measured)


def _record(told):
    from .record import record
    from .report import scorecard

    if not told.out:
        raise ValueError("record needs the name of a file to write: add --out FILE.")
    print("recording: two minutes on a quiet CPU, five on a GPU at most, longer where others use it.", file=sys.stderr)
    found = record(told.out, fresh=told.fresh)
    print(found, *(scorecard(found.roof(dtype), found.of(dtype)) for dtype in found.dtypes), sep="\n\n")


def _sheet(told):
    from .sheet import sheet

    if not told.config or not told.chip:
        raise ValueError("sheet needs a model and a chip: sheet config.json --chip 'H100 SXM'.")
    found = sheet(told.config, told.chip, told.context, told.batch, told.weights, told.kv, told.dtype, told.chips)
    print(json.dumps(found.data, indent=1) if told.json else found)


def _refuse_figure(path):
    if path.suffix.lower() not in FIGURES:
        raise ValueError(f"--plot {path}: give a name that ends in {', '.join(FIGURES)}.")
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise ValueError(f"--plot {path}: no file can be written there, choose another folder or name.")


def _draw(roof, path):
    import io

    import matplotlib

    matplotlib.use("Agg")                                    # a file needs no window
    from .cards import write
    from .plot import plot

    image = io.BytesIO()
    plot(roof).figure.savefig(image, format=path.suffix[1:].lower())
    write(path, image.getvalue())


def _fail(sentence, code=1):
    print(f"roofline_kit: {sentence}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
