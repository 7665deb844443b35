"""The space of a program: sketches, which are schedules whose sampling steps leave decisions open."""
