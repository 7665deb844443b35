"""Pass infrastructure: passes and pipelines, their context, instruments, constants on their way through a build."""
