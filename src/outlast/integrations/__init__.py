"""Drop-ins for frameworks: one file each, imported only by programs that use the framework."""
