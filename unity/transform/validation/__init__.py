"""Translation validation: a module runs before and after each pass, and what differs is shrunk and saved."""
