"""Models from torch: captured, translated, compiled, run. Another importer is a folder beside this one."""
