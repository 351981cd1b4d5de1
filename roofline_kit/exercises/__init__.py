"""What does an exercise consist of, and which ones are there? One table a lab: exercises/labNN.py."""

import _thread
import contextlib
import importlib
import inspect
import math
import pkgutil
import signal
import threading
from dataclasses import dataclass
from typing import NamedTuple

from ..units import nearest

PATIENCE = 30.0      # s for a learner's function, kernels that it compiles on the way included


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """One question of a lab, with all that is needed to judge an answer and to help.

    kind:          "derive", "predict", "measure", "build" or "diagnose"
    ask:           the question in a few words
    reference:     the right answer, or a function that gives it: a number, a Work, a tuple of numbers, a set of
                   positive numbers (each is right), a label, a tuple or a set of labels; measure: the Work of
                   the run, a tuple of them, or None for any; build: the array in float64
    right:         the insight that a right answer is told
    hints:         three: where to look, the idea, nearly the answer
    slips:         {name: (wrong answer, sentence that explains it)}
    alternatives:  other right answers, as a learner might write them
    inputs:        {} when the answer is a value; else what the answer is a function of (see `draw`)
    tolerance:     relative error that counts as right; None: the kind's own
    factor:        a prediction is right within this factor either way
    quantity:      attribute that is meant when a Work or a Run comes where a number is asked
    names:         of the numbers of a tuple, to say which one is off
    labels:        the labels to choose from
    then:          what to measure after a right prediction
    cold:          measure: True (flushed before each sample), False (hot), None (either)
    work, big:     build: the Work of a call, and the larger arrays it is timed on
    out:           build: the input that the answer writes its result into; "": it returns the result
    least:         build: share of the roof that is asked for
    cuda:          build: how an answer in CUDA C++ is launched and counted, a `sources.Cuda`; None: none is taken
    """

    kind: str
    ask: str
    reference: object
    right: str
    hints: tuple
    slips: dict
    alternatives: tuple = ()
    inputs: object = None
    points: int = 1
    tolerance: float | None = None
    factor: float | None = None
    quantity: str = ""
    names: tuple = ()
    labels: tuple = ()
    then: str = ""
    cold: bool | None = None
    work: object = None
    big: object = None
    out: str = ""
    least: float = 0.0
    cuda: object = None


class Verdict(NamedTuple):
    """What a check found.

    state:  "right", "wrong", "blank" (not answered yet) or "unclear" (inconclusive: run again)
    text:   the sentence for the learner
    """

    state: str
    text: str


class Form(Exception):
    """The answer has not the form that is asked; the message says what came instead."""


class Blank(Exception):
    """There is no answer yet."""


def either_way(roof, work):
    """{seconds, seconds} of a memory-bound work: by its mix of loads and stores, and its bytes over `bandwidth`.

    A learner may take either. On a card taken while the memory changed its speed they lie far apart.
    """
    return {roof.seconds(work), work.nbytes / roof.bandwidth}


def labs():
    """Numbers of the labs that have a table: ("01", "04", ..)."""
    return tuple(sorted(m.name[3:] for m in pkgutil.iter_modules(__path__) if m.name.startswith("lab")))


def table(lab):
    """(title, {id: Exercise}) of one lab; the title is the first line of its module."""
    module = importlib.import_module(f"{__name__}.lab{lab}")
    title = inspect.getdoc(module).splitlines()[0].removeprefix("Exercises of lab ").rstrip(".")
    return f"Lab {title}" if title[0].isdigit() else title, module.EXERCISES


def find(name):
    """The exercise of that id. Errors: KeyError whose only argument offers the nearest ids."""
    lab = str(name).partition(".")[0]
    if lab in labs() and name in table(lab)[1]:
        return table(lab)[1][name]
    raise KeyError(nearest(name, [one for number in labs() for one in table(number)[1]], "exercise"))


def parameters(function):
    """Names of the parameters of a function, without *these and **those; () where Python cannot tell."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):                        # some built-in functions
        return ()
    return tuple(one.name for one in found if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD))


def call(thing, known):
    """`thing` itself, or, if it is a function, its result for those of `known` that it names.

    Errors:  Form for a name that the check cell should have handed in
    """
    if not callable(thing):
        return thing
    names = parameters(thing)
    missing = [name for name in names if name not in known and
               inspect.signature(thing).parameters[name].default is inspect.Parameter.empty]
    if missing:
        wanted = ", ".join(f"{name}={name}" for name in missing)
        raise Form(f"the check also wants {wanted} after the answer.")
    return thing(**{name: known[name] for name in names if name in known})


def draw(inputs, rng):
    """One set of random inputs by name, so that no two sizes are alike and a swapped pair shows.

    (low, high) of ints:  an integer, log-uniform, unlike the others;  with a float: a float, log-uniform
    [a, b, ..]:           one of them
    function of rng:      what it returns
    inputs itself:        may be a function of rng that returns the whole dict
    """
    if callable(inputs):
        return inputs(rng)
    drawn = {}
    for name, choice in (inputs or {}).items():
        drawn[name] = _pick(choice, rng, drawn.values())
    return drawn


def _pick(choice, rng, taken):
    if callable(choice):
        return choice(rng)
    if isinstance(choice, list):
        return choice[int(rng.integers(len(choice)))]
    low, high = choice
    if isinstance(low, float) or isinstance(high, float):
        return math.exp(rng.uniform(math.log(low), math.log(high)))
    for _ in range(50):                                    # a narrow range may have no other number left
        value = min(high, int(math.exp(rng.uniform(math.log(low), math.log(high + 1)))))
        if value not in taken:
            break
    return value


def result_of(function, inputs):
    """The learner's result for these inputs, given by position, or by name where only the order is another.

    Errors:  Form for a wrong number of arguments or an exception; Blank where nothing comes back
    """
    names = parameters(function)
    by_name = set(names) == set(inputs) and list(names) != list(inputs)
    if names and not by_name:
        try:
            inspect.signature(function).bind(*inputs.values())
        except TypeError:
            raise Form(f"your function takes ({', '.join(names)}), but it is called "
                       f"with ({', '.join(inputs)}).") from None
    try:
        result = function(**inputs) if by_name else function(*inputs.values())
    except NotImplementedError:
        raise Blank from None
    except (Exception, SystemExit) as problem:   # noqa: BLE001  the learner's function may raise anything
        raise Form(f"your function raised {type(problem).__name__}: {problem} {example(inputs)}.") from None
    return result


@contextlib.contextmanager
def time_box():
    """Leave the block with Form after a while, where Python can be interrupted: in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    late = threading.Event()

    def stop():
        late.set()
        if hasattr(signal, "pthread_kill"):                # wakes a sleeping main thread, too
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        else:
            _thread.interrupt_main()

    timer = threading.Timer(PATIENCE, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    except KeyboardInterrupt:
        if not late.is_set():
            raise                                          # the learner's own
        raise Form(f"no result after {PATIENCE:g} s: does your function ever end?") from None
    finally:
        timer.cancel()


def example(inputs):
    """The inputs in words: "for m=3, x of shape (4, 5)"."""
    def shown(name, value):
        if getattr(value, "shape", ()):
            return f"{name} of shape {value.shape}"
        return f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value!r}"

    return "for " + ", ".join(shown(*one) for one in inputs.items()) if inputs else "as it is called"
