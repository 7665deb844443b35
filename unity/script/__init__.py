"""Script: the text form of a module. Reader, printer, decorators, upgrade of old spellings."""
