"""The ground of every primitive: references to loops and blocks, the state of a schedule, the table, refusals."""
