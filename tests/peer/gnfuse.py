"""libgnfuse from Python, as much as the peer suite needs: plans that run on PyTorch tensors."""

import ctypes


class Arguments(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t)]
    _fields_ += [(name, ctypes.c_uint64) for name in ("x", "y", "gamma", "beta")]
    _fields_ += [("operand", ctypes.c_uint64 * 6), ("workspace", ctypes.c_uint64), ("workspace_size", ctypes.c_size_t)]
    _fields_ += [(name, ctypes.c_uint64) for name in ("weight", "bias", "prepared")]


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("samples", ctypes.c_int64), ("variant", ctypes.c_char_p), ("alignment", ctypes.c_uint)]
    _fields_ += [("stream", ctypes.c_void_p), ("tune", ctypes.c_int), ("tune_budget", ctypes.c_double), ("prepared", ctypes.c_int)]


class Info(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t)]
    _fields_ += [(name, ctypes.c_char_p) for name in ("problem", "variant", "fallback", "match")]
    _fields_ += [("workspace_size", ctypes.c_size_t), ("x_elements", ctypes.c_int64), ("y_elements", ctypes.c_int64)]
    _fields_ += [("kernels", ctypes.c_uint), ("registers", ctypes.c_int), ("shared_bytes", ctypes.c_int)]
    _fields_ += [("recorded_us", ctypes.c_double), ("prepared_size", ctypes.c_size_t)]


class VariantInfo(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_char_p) for name in ("name", "strategy", "parameters")]
    _fields_ += [("alignment", ctypes.c_uint), ("capability", ctypes.c_int), ("kernels", ctypes.c_uint), ("shared_bytes", ctypes.c_int)]


class Library:
    """One context on the current CUDA context (PyTorch's, once a tensor is on the device)."""

    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.c.gnf_error_message.restype = ctypes.c_char_p
        self.c.gnf_prepare_weight.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p]
        self.context = ctypes.c_void_p()
        self.check(self.c.gnf_context_create(ctypes.byref(self.context), None))

    def check(self, status):
        if status:
            raise RuntimeError(self.c.gnf_error_message().decode())

    def load_pack(self, path):
        self.check(self.c.gnf_context_load_pack(self.context, str(path).encode()))

    def variants(self, problem):
        """Names of the loaded packs' variants for a problem, in their order."""
        names, info = [], VariantInfo(size=ctypes.sizeof(VariantInfo))
        while self.c.gnf_get_variant(self.context, problem.encode(), len(names), ctypes.byref(info)) == 0:
            names.append(info.name.decode())
        return names

    def plan(self, problem, prepared=False, variant=None):
        """`prepared`: executions will pass a weight that prepare() filled; `variant`: this one, by name."""
        return Plan(self, problem, prepared, variant)


class Plan:
    def __init__(self, library, problem, prepared, variant):
        self.library, self.handle = library, ctypes.c_void_p()
        options = Options(size=ctypes.sizeof(Options), prepared=prepared, variant=variant and variant.encode())
        library.check(library.c.gnf_plan_create(ctypes.byref(self.handle), library.context, problem.encode(), ctypes.byref(options)))
        info = Info(size=ctypes.sizeof(Info))
        library.check(library.c.gnf_plan_get_info(self.handle, ctypes.byref(info)))
        self.workspace_size, self.prepared_size = info.workspace_size, info.prepared_size
        self.variant, self.match = info.variant.decode(), info.match.decode()

    def prepare(self, weight, prepared, stream):
        """Enqueues what is done once for a weight; `prepared` is a tensor of prepared_size bytes."""
        self.library.check(
            self.library.c.gnf_prepare_weight(self.handle, weight.data_ptr(), prepared.data_ptr(), prepared.numel(), stream.cuda_stream)
        )

    def __call__(self, x, y, stream, workspace=None, gamma=None, beta=None, operands=(), weight=None, bias=None, prepared=None):
        """Enqueues on a PyTorch stream; tensors are dense in the problem's layout."""
        a = Arguments(size=ctypes.sizeof(Arguments), x=x.data_ptr(), y=y.data_ptr())
        given = {"gamma": gamma, "beta": beta, "weight": weight, "bias": bias, "prepared": prepared}
        for name, tensor in given.items():
            if tensor is not None:
                setattr(a, name, tensor.data_ptr())
        for i, operand in enumerate(operands):
            a.operand[i] = operand.data_ptr()
        if workspace is not None:
            a.workspace, a.workspace_size = workspace.data_ptr(), workspace.numel()
        self.library.check(self.library.c.gnf_execute(self.handle, ctypes.byref(a), ctypes.c_void_p(stream.cuda_stream)))
