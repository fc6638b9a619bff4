"""`doctor`: is the store what it should be? And what is derived, made anew.

examination   runs the checks, mends and looks again
in_store      checks of the file, its rows and its indexes
in_files      checks that look beyond it: at folders, at files, at the clock
"""

from kb.library.doctor.checks import examine

__all__ = ["examine"]
