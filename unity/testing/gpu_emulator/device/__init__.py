"""The device as programs see it: memory, images, modules, launches, the functions of the driver."""
