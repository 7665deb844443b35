"""Default schedules of programs for devices with threads: they bind the loops of every program.

``rules`` has the rules in order and divides a program among them, ``stages`` finds the nests of a program, ``nests`` builds
new ones. Each rule takes one kind of nests: ``tiles`` the sums of products that ``product`` finds and
rewrites, ``rows`` those that work on one row together, which ``row_stages`` finds; ``transpose`` those that read along another
axis than they write; ``windows`` reductions over small windows that overlap; ``cells`` any other nest; ``plain_loops`` what is
no nest of a block.
"""
