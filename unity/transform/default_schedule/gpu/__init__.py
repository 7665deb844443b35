"""Default schedules of programs for devices with threads: every program ends with its loops bound.

``rules`` the rules in their order and how they share a program, ``stages`` the nests of a program as rules see them, ``nests``
those that rules write anew. A rule takes the nests that it is for: ``tiles`` the sums of products that ``product`` finds and
rewrites, ``rows`` those that work on one row together, which ``row_stages`` finds; ``transpose`` those that read along another
axis than they write; ``cells`` any other nest; ``plain_loops`` what is no nest of a block, with the loops that
``independent_loops`` finds.
"""
