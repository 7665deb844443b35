"""Default schedules of programs for devices with threads: they bind the loops of every program.

``rules`` has the rules in order and divides a program among them. Each takes one kind of nests: ``products`` sums of products and
convolutions, ``rows`` those that work on one row together, which ``row_stages`` finds; ``transpose`` those that read along another
axis than they write; ``windows`` reductions over small windows that overlap; ``cells`` any other nest; ``remaining_loops`` what is
not a nest of a block. ``common`` finds the nests of a program, and builds new ones.
"""
