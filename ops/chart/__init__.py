"""The chart of `ops/kubernetes/chart`, tried with Helm itself. Helm comes as a library of 75 MB, so only the nightly part does this."""
