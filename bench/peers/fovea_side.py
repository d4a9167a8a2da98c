"""fovea's side of the race: attention through the Python package, training steps through the C functions of shim.cc."""

import ctypes
from ctypes import POINTER, Structure, byref, c_bool, c_char_p, c_double, c_float, c_int32, c_int64, c_void_p

import fovea
import fovea.torch
import numpy as np

import cases
import sides


class TrainSpec(Structure):
    _fields_ = [("preset", c_char_p), ("batch", c_int64), ("n", c_int64), ("vocabulary", c_int64), ("classes", c_int64)]
    _fields_ += [(name, c_double) for name in ("dropout", "attention_dropout", "rate", "weight_decay")]
    _fields_ += [("ids", c_void_p), ("targets", c_void_p)]


class ParameterView(Structure):
    _fields_ = [("name", c_char_p), ("data", POINTER(c_float)), ("grad", POINTER(c_float))]
    _fields_ += [("numel", c_int64), ("decay", c_int32)]


# name: result, arguments
FUNCTIONS = {
    "fovea_error": (c_char_p, []),
    "fovea_context_new": (c_void_p, [c_int32]),
    "fovea_context_free": (None, [c_void_p]),
    "fovea_anchor": (c_double, [c_void_p]),
    "fovea_train_new": (c_void_p, [c_void_p, POINTER(TrainSpec)]),
    "fovea_train_free": (None, [c_void_p]),
    "fovea_train_parameters": (c_int64, [c_void_p]),
    "fovea_train_parameter": (ParameterView, [c_void_p, c_int64]),
    "fovea_train_loss": (c_bool, [c_void_p, POINTER(c_double)]),
    "fovea_train_update": (c_bool, [c_void_p]),
    "fovea_train_run": (c_double, [c_void_p]),
}


class FoveaError(RuntimeError):
    """What fovea refused."""


class Library:
    """The shim with one context. Load PyTorch before it: the process then has one OpenMP runtime, PyTorch's."""

    def __init__(self, path, threads):
        self.c = ctypes.CDLL(str(path))
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(self.c, name)
            function.restype, function.argtypes = result, arguments
        self.context = self.checked(self.c.fovea_context_new(threads))

    def checked(self, result):
        if not result or (isinstance(result, float) and result < 0):
            raise FoveaError(self.c.fovea_error().decode())
        return result

    def anchor(self):
        """Floating-point operations per second of oneDNN's sgemm 2048^3."""
        return self.checked(self.c.fovea_anchor(self.context))


def pointer(array):
    return None if array is None else array.ctypes.data_as(c_void_p).value


def options_of(work):
    """The keywords of fovea.torch.attention."""
    found = dict(work.settings)
    if work.causal:
        found["causal"] = True
    if work.packed:
        found["cu_seqlens"] = [0, *np.cumsum(work.packed).tolist()]
    if work.documents:
        document = np.repeat(np.arange(len(work.documents)), work.documents)
        same = fovea.Pattern(lambda query, key: document[query] == document[key])
        found["mask"] = same & fovea.Pattern.window(work.window, 0)
    elif work.window is not None:
        found["window"] = (work.window, 0)
    return found


class AttentionSide(sides.TensorSide):
    """An attention problem in fovea's layout (batch, n, heads, dim), as a user of the package writes it."""

    def __init__(self, work, inputs, timed):
        leaves, grad = sides.leaves_of(inputs, work.dtype, lambda x: x.contiguous(), timed)
        options = options_of(work)

        def function(q, k, v, *others):
            more = {"bias": others[0]} if work.bias else {"weights": list(others)} if others else {}
            return fovea.torch.attention(q, k, v, work.mechanism, **options, **more)

        super().__init__(function, leaves, grad)

    def results(self):
        try:
            return super().results()
        except Exception as error:
            raise FoveaError(f"fovea: {error}") from error


class TrainSide:
    """One training step of a preset, over and over on the same batch."""

    def __init__(self, library, work, data, settings):
        """data: i32 arrays "ids" (batch, n) and "targets" (batch); settings: "rate" and "weight_decay"."""
        self.library, self.data = library, data
        spec = TrainSpec(work.preset.encode(), work.batch, work.n, work.vocabulary, work.classes)
        spec.dropout, spec.attention_dropout = work.dropout, work.attention_dropout
        spec.rate, spec.weight_decay = settings["rate"], settings["weight_decay"]
        spec.ids, spec.targets = pointer(data["ids"]), pointer(data["targets"])
        self.handle = library.checked(library.c.fovea_train_new(library.context, byref(spec)))

    def run(self, timed=cases.BOTH):
        return self.library.checked(self.library.c.fovea_train_run(self.handle))

    def loss(self):
        value = c_double()
        self.library.checked(self.library.c.fovea_train_loss(self.handle, byref(value)))
        return value.value

    def update(self):
        self.library.checked(self.library.c.fovea_train_update(self.handle))

    def parameters(self):
        """name -> (flat values, flat gradient or None, whether it decays); views that the next step changes."""
        found = {}
        for i in range(self.library.c.fovea_train_parameters(self.handle)):
            view = self.library.c.fovea_train_parameter(self.handle, i)
            flat = lambda p: np.ctypeslib.as_array(p, (view.numel,)) if p else None  # noqa: E731
            found[view.name.decode()] = (flat(view.data), flat(view.grad), bool(view.decay))
        return found

    def close(self):
        self.library.c.fovea_train_free(self.handle)
