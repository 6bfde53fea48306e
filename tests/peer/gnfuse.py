"""libgnfuse from Python, as much as the peer suite needs: plans that run on PyTorch tensors."""

import ctypes


class Arguments(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t)]
    _fields_ += [(name, ctypes.c_uint64) for name in ("x", "y", "gamma", "beta")]
    _fields_ += [("operand", ctypes.c_uint64 * 6), ("workspace", ctypes.c_uint64), ("workspace_size", ctypes.c_size_t)]


class Library:
    """One context on the current CUDA context (PyTorch's, once a tensor is on the device)."""

    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.c.gnf_error_message.restype = ctypes.c_char_p
        self.c.gnf_plan_workspace_size.restype = ctypes.c_size_t
        self.context = ctypes.c_void_p()
        self.check(self.c.gnf_context_create(ctypes.byref(self.context), None))

    def check(self, status):
        if status:
            raise RuntimeError(self.c.gnf_error_message().decode())

    def load_pack(self, path):
        self.check(self.c.gnf_context_load_pack(self.context, str(path).encode()))

    def plan(self, problem):
        return Plan(self, problem)


class Plan:
    def __init__(self, library, problem):
        self.library, self.handle = library, ctypes.c_void_p()
        library.check(library.c.gnf_plan_create(ctypes.byref(self.handle), library.context, problem.encode(), None))
        self.workspace_size = library.c.gnf_plan_workspace_size(self.handle)

    def __call__(self, x, y, stream, workspace=None, gamma=None, beta=None, operands=()):
        """Enqueues on a PyTorch stream; tensors are dense in the problem's layout."""
        a = Arguments(size=ctypes.sizeof(Arguments), x=x.data_ptr(), y=y.data_ptr())
        if gamma is not None:
            a.gamma = gamma.data_ptr()
        if beta is not None:
            a.beta = beta.data_ptr()
        for i, operand in enumerate(operands):
            a.operand[i] = operand.data_ptr()
        if workspace is not None:
            a.workspace, a.workspace_size = workspace.data_ptr(), workspace.numel()
        self.library.check(self.library.c.gnf_execute(self.handle, ctypes.byref(a), ctypes.c_void_p(stream.cuda_stream)))
