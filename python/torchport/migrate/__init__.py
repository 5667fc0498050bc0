"""From a CUDA code base to a documented decision. Nothing in here needs torch, except running code on the device."""
