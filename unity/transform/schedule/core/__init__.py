"""What every primitive works on: references to loops and blocks, the state of a schedule, the table, refusals."""
