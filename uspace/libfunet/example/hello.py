"""hello: each node calls the next one, by ctypes: funet run -n 2 python3 hello.py"""
from ctypes import *

lib = CDLL("libfunet.so.1")
lib.funet_error.restype = c_char_p


class Message(Structure):  # struct funet_message
    _fields_ = [("bytes", c_void_p), ("length", c_size_t), ("source", c_uint32),
                ("handler", c_uint32), ("token", c_uint64)]


def check(code):
    if code < 0:
        raise OSError(lib.funet_error().decode())
    return code


@CFUNCTYPE(c_int, POINTER(Message), c_void_p)  # kept as long as the endpoint
def greet(m, _):
    answer = b"hello " + string_at(m[0].bytes, m[0].length)
    return lib.funet_answer(m, answer, c_size_t(len(answer)))


f, answer, length = c_void_p(), create_string_buffer(80), c_size_t()
check(lib.funet_open(byref(f), None, None))
check(lib.funet_serve(f, 1, greet, None))
check(lib.funet_barrier(f, None))
following = (check(lib.funet_node(f)) + 1) % check(lib.funet_nodes(f))
check(lib.funet_call(f, following, 1, b"python", c_size_t(6), answer, c_size_t(80), byref(length), None))
check(lib.funet_barrier(f, None))
check(lib.funet_close(f, None))
print(answer.raw[:length.value].decode())
