"""Single operators beside torch eager: what is measured (elements, lines, moves, images, products), how, and the page."""
