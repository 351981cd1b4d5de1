"""How does array code normalise, soften, cut and update, forward and backward? One call of `xp` after the other.

Arguments: the array library, the inputs, the outputs, which exist already. A "pull" is the gradient of the loss for an
array: how the loss changes with each of its numbers.
"""

EPSILON = 1e-5           # in a norm, as in the kernel `layernorm`
FADE, FADE_SQUARE = 0.9, 0.999           # of Adam's two averages
RATE = 1e-7              # of the update: so small that the data stay what they are, however often a step is timed


def norm(xp, x, gain, shift, y):
    """LayerNorm of each row."""
    xp.subtract(x, x.mean(axis=1, keepdims=True), out=y)
    size = xp.sqrt((y * y).mean(axis=1, keepdims=True) + EPSILON)
    xp.divide(y, size, out=y)
    xp.multiply(y, gain, out=y)
    xp.add(y, shift, out=y)


def norm_back(xp, x, gain, pull, x_pull, gain_pull, shift_pull):
    """The same sums once more, rather than kept; 16 FLOPs for each number of x."""
    unit = x - x.mean(axis=1, keepdims=True)
    size = xp.sqrt((unit * unit).mean(axis=1, keepdims=True) + EPSILON)
    unit /= size
    gain_pull[...], shift_pull[...] = (pull * unit).sum(axis=0), pull.sum(axis=0)
    pull = pull * gain
    pull -= pull.mean(axis=1, keepdims=True) + unit * (pull * unit).mean(axis=1, keepdims=True)
    xp.divide(pull, size, out=x_pull)


def softmax(xp, x, y):
    """Softmax of each row."""
    xp.subtract(x, x.max(axis=1, keepdims=True), out=y)
    xp.exp(y, out=y)
    xp.divide(y, y.sum(axis=1, keepdims=True), out=y)


def softmax_back(xp, y, pull, x_pull):
    """y (pull - sum of y pull), row by row."""
    xp.multiply(y, pull, out=x_pull)
    xp.subtract(pull, x_pull.sum(axis=1, keepdims=True), out=x_pull)
    xp.multiply(x_pull, y, out=x_pull)


def cut(xp, x, y):
    """Negative numbers become 0."""
    xp.multiply(x, x > 0, out=y)


def cut_back(xp, x, pull, x_pull):
    """The gradient where x was let through."""
    xp.multiply(pull, x > 0, out=x_pull)


def split(xp, wide, by_head):
    """[rows, heads x d] to [heads, rows, d]."""
    by_head[...] = wide.reshape(len(wide), len(by_head), -1).transpose(1, 0, 2)


def merge(xp, by_head, wide):
    """[heads, rows, d] to [rows, heads x d]."""
    wide.reshape(len(wide), len(by_head), -1)[...] = by_head.transpose(1, 0, 2)


def adam(xp, gradient, master, mean, square, weight, room):
    """One update; `weight` is a copy of `master`, in fewer bits where there are few. 12 FLOPs for each weight.

    The factors that correct an average of few steps are left out: they are two numbers for all weights.
    Source:  Kingma and Ba, Adam, arXiv 1412.6980
    """
    room[...] = gradient
    room *= 1 - FADE
    mean *= FADE
    mean += room
    room[...] = gradient
    room *= room
    room *= 1 - FADE_SQUARE
    square *= FADE_SQUARE
    square += room
    xp.sqrt(square, out=room)
    room += 1e-8
    xp.divide(mean, room, out=room)
    room *= RATE
    master -= room
    weight[...] = master
