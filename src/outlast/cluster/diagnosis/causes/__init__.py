"""Why a run waits (P01 to P43) and how attempts end (E01 to E23). Each cause is one entry."""
