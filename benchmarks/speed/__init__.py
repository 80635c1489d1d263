"""Time and memory: a training step beside other implementations, the loop, extraction, the viewer, jobs on Ray."""
