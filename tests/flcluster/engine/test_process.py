"""What a run asks of its process: objects that live as long as the run are spared by the garbage collector."""

import ctypes
import gc
from types import SimpleNamespace

from flcluster.engine.process import give_freed_memory_back, keep_freed_memory, spared


def test_what_is_there_is_spared_and_put_back():
    before = gc.get_freeze_count()
    kept = [[] for _ in range(100)]
    with spared():
        assert gc.get_freeze_count() > before + 100
        loop = []
        loop.append(loop)
        mark = id(loop)
        del loop
        gc.collect()
        assert mark not in map(id, gc.get_objects())  # what is made inside is collected as ever
    assert gc.get_freeze_count() == before and len(kept) == 100


def test_a_process_that_has_frozen_objects_is_left_alone():
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        with spared():
            later = [[] for _ in range(50)]
            assert gc.get_freeze_count() <= count
        assert 0 < gc.get_freeze_count() <= count and len(later) == 50
    finally:
        gc.unfreeze()


def test_another_c_library_is_left_alone(monkeypatch):
    """One that has no ``mallopt``, or no ``malloc_trim``."""
    for library in (SimpleNamespace(), SimpleNamespace(mallopt=int), SimpleNamespace(malloc_trim=int)):
        monkeypatch.setattr(ctypes, "CDLL", lambda name, found=library: found)
        keep_freed_memory()
        give_freed_memory_back()


def test_glibc_keeps_freed_memory_and_gives_it_back(monkeypatch):
    asked = []
    library = SimpleNamespace(mallopt=lambda *limit: asked.append(limit), malloc_trim=lambda pad: asked.append(pad))
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr("sys.platform", "linux")
    trim, mmap = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
    keep_freed_memory()
    assert dict(asked) == {mmap: 2**30, trim: 2**31 - 1}
    asked.clear()
    give_freed_memory_back()
    assert dict(asked[:2]) == {mmap: 2**25, trim: 2**26} and asked[2:] == [0]
