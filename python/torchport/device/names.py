"""The names of torch.cuda that have no meaning here, each with the reason and what to use instead.

Every other public name of torch.cuda exists in this package; tests/feature checks that the two sets cover it.
"""

_GRAPHS = "programs are compiled and cached as they run; use torch.compile(fn, backend='torchport')"
_ALLOCATOR = "the platform's own allocator holds the buffers; see memory_stats() and TORCHPORT_MEMORY_LIMIT"
_SENSORS = "a PJRT platform reports no such sensor; ask the vendor's tool"
_CUDA = "it is part of CUDA's own programming interface"
_STREAM = "a PJRT platform gives no handles to its streams"

REFUSED: dict[str, str] = {
    "CUDAGraph": _GRAPHS,
    "CUDAPluggableAllocator": _ALLOCATOR,
    "CudaError": "errors are the types CPU PyTorch raises, with a TPnnnn code; see `torchport explain`",
    "DeferredCudaCallError": "errors are the types CPU PyTorch raises, with a TPnnnn code; see `torchport explain`",
    "ExternalStream": _STREAM,
    "GreenContext": _CUDA,
    "MemPool": _ALLOCATOR,
    "caching_allocator_alloc": _ALLOCATOR,
    "caching_allocator_delete": _ALLOCATOR,
    "caching_allocator_disabled": _ALLOCATOR,
    "caching_allocator_enable": _ALLOCATOR,
    "change_current_allocator": _ALLOCATOR,
    "check_error": _CUDA,
    "clock_rate": _SENSORS,
    "cudaStatus": _CUDA,
    "cudart": _CUDA,
    "current_blas_handle": _CUDA,
    "current_solver_handle": _CUDA,
    "gds": _CUDA,
    "get_arch_list": "one extension serves every device; get_device_properties() names the platform",
    "get_gencode_flags": "one extension serves every device; get_device_properties() names the platform",
    "get_per_process_memory_fraction": "set TORCHPORT_MEMORY_LIMIT (bytes) before the first use of the device",
    "get_stream_from_external": _STREAM,
    "get_sync_debug_mode": "torchport.report() counts host syncs",
    "graph": _GRAPHS,
    "graph_pool_handle": _GRAPHS,
    "graphs": _GRAPHS,
    "green_contexts": _CUDA,
    "host_memory_stats": "pinned host memory is not pooled",
    "host_memory_stats_as_nested_dict": "pinned host memory is not pooled",
    "jiterator": "it compiles CUDA C++; use torch.compile(fn, backend='torchport')",
    "list_gpu_processes": _SENSORS,
    "make_graphed_callables": _GRAPHS,
    "memory_snapshot": _ALLOCATOR,
    "memory_usage": _SENSORS,
    "nccl": "collectives go through torch.distributed",
    "nvtx": "use torch.profiler.record_function",
    "power_draw": _SENSORS,
    "profiler": "use torch.profiler",
    "reset_accumulated_host_memory_stats": "pinned host memory is not pooled",
    "reset_peak_host_memory_stats": "pinned host memory is not pooled",
    "set_per_process_memory_fraction": "set TORCHPORT_MEMORY_LIMIT (bytes) before the first use of the device",
    "set_sync_debug_mode": "torchport.report() counts host syncs",
    "sparse": "sparse tensors have no kernels here; use .to_dense()",
    "temperature": _SENSORS,
    "tunable": "the platform's compiler tunes its own kernels",
    "use_mem_pool": _ALLOCATOR,
    "utilization": _SENSORS,
}
