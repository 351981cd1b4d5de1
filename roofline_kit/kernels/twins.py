"""How does a twin refuse wrong arguments in no time? What arrays it takes is compiled into it, the words come later.

Numba compiles a function for each combination of types, so dtypes, dimensions and gaps are looked at once; sizes and
addresses are compared in each call, which takes a few ns. Only when that fails, `fault` looks for the sentence.
"""

from functools import wraps

from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload, register_jitable

from . import arguments

AS_STORED = {"float16": "uint16", "bfloat16": "int16"}               # as floats.stored gives them
AS_BITS = AS_STORED | {"bfloat16": "uint16", "float32": "uint32", "float64": "uint64"}
REFUSED = "these arrays do not fit"


def twin(function):
    """A kernel for a CPU, whose errors about arguments become one sentence."""
    @wraps(function)
    def call(*given, **named):
        try:
            return function(*given, **named)
        except Exception as error:                       # noqa: BLE001  Numba has many, some of a page
            found = arguments.fault(function.__name__, function, given, named) or error
        raise found

    return call


def flat(array):
    """The numbers of an array without gaps, in one row."""
    return array.reshape(-1)


@overload(flat)
def _flat(array):
    return (lambda array: array) if array.ndim == 1 else (lambda array: array.reshape(array.size))


def whole(number):
    """The number, which compiled code takes only if it is a whole one."""
    return number


@overload(whole)
def _whole(number):
    if not isinstance(number, (types.Integer, types.Boolean, types.Omitted)):
        raise TypingError(REFUSED)
    return lambda number: number


@intrinsic
def _begin(typing, array):
    """The address of an array; its `ctypes` would count references, 20 ns a time."""
    def build(context, builder, signature, given):
        data = context.make_array(array)(context, builder, given[0]).data
        return builder.ptrtoint(data, context.get_value_type(types.intp))

    return types.intp(array), build


@overload(arguments.address)
def _address(array):
    return lambda array: _begin(array)


for function in arguments.apart, arguments.same_or_apart:
    register_jitable(function)


@register_jitable
def _demand(fits):
    if not fits:
        raise ValueError(REFUSED)


def refusal(name, stored=AS_STORED):
    """A function of the arrays of that kernel, for compiled code, that raises a ValueError if they break its rule.

    stored:  dtype -> that of the array as compiled code sees it
    """
    rule = arguments.RULES[name]
    compiled = eval(f"lambda {', '.join(rule.shapes)}: demand({rule.fits} & {rule.apart})",
                    {"apart": arguments.apart, "same_or_apart": arguments.same_or_apart, "demand": _demand})

    def refuse(*arrays):
        """In place of what is compiled."""

    @overload(refuse, strict=False)
    def _typed(*kinds):
        if not _known(rule, kinds, stored):
            raise TypingError(REFUSED)
        return compiled

    return refuse


def _known(rule, kinds, stored):
    """Whether a rule allows arrays of these types."""
    shared = {kind.dtype for word, kind in zip(rule.shapes, kinds, strict=True) if word not in rule.others}
    return len(shared) < 2 and all(
        kind.layout == "C" and kind.aligned and (kind.mutable or word != rule.written)
        and (kind.ndim > 0 if rule.flat else kind.ndim == len(rule.shapes[word]))
        and str(kind.dtype) in {stored.get(dtype, dtype) for dtype in rule.allowed(word, on_cpu=True)}
        for word, kind in zip(rule.shapes, kinds, strict=True))
