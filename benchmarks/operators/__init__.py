"""Single operators beside torch eager: what is measured, a file for each family, how, and the page."""
