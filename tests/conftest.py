"""One thread, here and in every process that a test starts."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # small tensors on several threads spend their time waiting for one another
