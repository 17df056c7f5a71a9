"""The guard: what no submission may hold or do, and the static scan for it."""
