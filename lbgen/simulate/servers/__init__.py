"""The servers: how an inference engine spends its time and memory, and what a pool is to the simulator."""
